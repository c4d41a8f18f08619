/** A mask as the list of what was done to it: undone and done again by playing the list anew. Pure, but for the canvas. */

export interface Point {
  x: number;
  y: number;
}

/** A line of a round brush; `size` is its width, in pixels of the picture. */
export interface Stroke {
  kind: "brush" | "eraser";
  size: number;
  points: Point[];
}

export type Act = Stroke | { kind: "invert" } | { kind: "clear" } | { kind: "start"; from: ImageBitmap };

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** What was done, and what was undone of it. */
export interface Painting {
  done: readonly Act[];
  undone: readonly Act[];
}

export const BLANK: Painting = { done: [], undone: [] };

export function act(painting: Painting, next: Act): Painting {
  return { done: [...painting.done, next], undone: [] };
}

export function undo({ done, undone }: Painting): Painting {
  const last = done.at(-1);
  return last ? { done: done.slice(0, -1), undone: [...undone, last] } : { done, undone };
}

export function redo({ done, undone }: Painting): Painting {
  const last = undone.at(-1);
  return last ? { done: [...done, last], undone: undone.slice(0, -1) } : { done, undone };
}

/** Draw the whole mask: opaque where the picture is made anew. */
export function play(context: Context, acts: readonly Act[], colour: string): void {
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  for (const each of acts) draw(context, each, colour);
}

/** Draw one more act over what is there. */
export function draw(context: Context, next: Act, colour: string): void {
  const { width, height } = context.canvas;
  context.save();
  context.fillStyle = context.strokeStyle = colour;
  if (next.kind === "clear") context.clearRect(0, 0, width, height);
  else if (next.kind === "invert") {
    context.globalCompositeOperation = "source-out"; // all but what was there
    context.fillRect(0, 0, width, height);
  } else if (next.kind === "start") {
    context.drawImage(next.from, 0, 0);
    context.globalCompositeOperation = "source-in";
    context.fillRect(0, 0, width, height);
  } else stroke(context, next);
  context.restore();
}

function stroke(context: Context, { kind, size, points }: Stroke): void {
  const [first, ...others] = points;
  if (!first) return;
  context.globalCompositeOperation = kind === "eraser" ? "destination-out" : "source-over";
  context.lineWidth = size;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  context.arc(first.x, first.y, size / 2, 0, 2 * Math.PI); // a line of no length has no ends
  context.fill();
  context.beginPath();
  context.moveTo(first.x, first.y);
  for (const { x, y } of others) context.lineTo(x, y);
  context.stroke();
}

/** Whether anything is covered. */
export function isCovered(acts: readonly Act[], width: number, height: number): boolean {
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true })!;
  play(context, acts, "#fff");
  return context.getImageData(0, 0, width, height).data.some((value, at) => at % 4 === 3 && value >= 128);
}

/** Write a mask as the service reads it: a PNG of the picture's size, white where it is made anew. */
export async function written(acts: readonly Act[], width: number, height: number): Promise<Blob> {
  const layer = new OffscreenCanvas(width, height).getContext("2d")!;
  play(layer, acts, "#fff");
  const mask = new OffscreenCanvas(width, height);
  const context = mask.getContext("2d")!;
  context.fillStyle = "#000";
  context.fillRect(0, 0, width, height);
  context.drawImage(layer.canvas, 0, 0);
  return mask.convertToBlob({ type: "image/png" });
}

/** Read a mask that was written before: a start for more. */
export async function startFrom(mask: Blob): Promise<Act> {
  const bitmap = await createImageBitmap(mask);
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d")!;
  context.drawImage(bitmap, 0, 0);
  const pixels = context.getImageData(0, 0, bitmap.width, bitmap.height);
  for (let at = 0; at < pixels.data.length; at += 4) pixels.data[at + 3] = pixels.data[at]!; // white covers
  context.putImageData(pixels, 0, 0);
  return { kind: "start", from: await createImageBitmap(context.canvas) };
}
