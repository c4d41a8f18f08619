/** Pictures that the person gives, made into what the service takes. */
import { change, type Picture } from "./draft";
import { guide, whenServed, type Model } from "./served";

/** Formats that are sent as they come; browsers read others, the service does not. */
const TAKEN = new Set(["image/png", "image/jpeg", "image/webp"]);

/** The picture in a file, in its own size; raises an error that says what is wrong. */
export async function read(blob: Blob, name: string): Promise<Picture> {
  const bitmap = await decode(blob, name);
  const { width, height } = bitmap;
  if (TAKEN.has(blob.type)) return { blob, name, width, height };
  return draw(bitmap, name, width, height);
}

/** The picture in a file, in a size that images can have: scaled, and cut at the edges where it must be. */
export async function readFitted(blob: Blob, name: string): Promise<Picture> {
  const picture = await read(blob, name);
  await whenServed();
  const sizes = guide.value?.sizes;
  if (!sizes || fits(picture, sizes)) return picture;
  const scale = clamp(1, sizes.min / Math.min(picture.width, picture.height), sizes.max / Math.max(picture.width, picture.height));
  const side = (pixels: number) => clamp(Math.round((pixels * scale) / sizes.multiple) * sizes.multiple, sizes.min, sizes.max);
  return draw(await createImageBitmap(picture.blob), name, side(picture.width), side(picture.height));
}

/** Put a picture into the form; a mask of another does not fit it. */
export async function use(blob: Blob, name: string): Promise<void> {
  change({ picture: await readFitted(blob, name), mask: null });
}

/** Fetch a picture that the service has; raises an error that says what is wrong. */
export async function fetched(url: string): Promise<Blob> {
  const response = await fetch(url);
  if (!response.ok) throw new Error("The picture is not there any more.");
  return response.blob();
}

type Sizes = Model["sizes"];

function fits({ width, height }: Picture, { min, max, multiple }: Sizes): boolean {
  return [width, height].every((side) => side >= min && side <= max && side % multiple === 0);
}

async function decode(blob: Blob, name: string): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(blob);
  } catch {
    throw new Error(`${name || "This"} is no picture that can be read here.`);
  }
}

/** Draw a picture over all of a canvas: its middle, where the shapes differ. */
async function draw(bitmap: ImageBitmap, name: string, width: number, height: number): Promise<Picture> {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d")!;
  context.fillStyle = "#fff"; // as the service lays what is transparent on white
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  const [wide, high] = [bitmap.width * scale, bitmap.height * scale];
  context.drawImage(bitmap, (width - wide) / 2, (height - high) / 2, wide, high);
  return { blob: await canvas.convertToBlob({ type: "image/png" }), name, width, height };
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
