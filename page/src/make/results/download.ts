/** Save an image as a file, wherever it is stored. */
import { fetched } from "../state/pictures";

/** Read what a link leads to where that is of another origin: browsers show it, and save nothing. */
export async function download(event: MouseEvent): Promise<void> {
  const link = event.currentTarget as HTMLAnchorElement;
  if (link.origin === location.origin) return;
  event.preventDefault();
  const { href, download: name } = link;
  try {
    save(await fetched(href), name);
  } catch {
    window.open(href, "_blank", "noopener"); // the store lets no other page read it: it is saved from a tab
  }
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // a large one is read until then
}
