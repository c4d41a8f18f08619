/** Put text on the clipboard, without a secure context too. */
import { say } from "./toast";

export async function copy(text: string, what: string): Promise<void> {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
  say(`${what} copied`);
}

/** Over plain HTTP browsers give pages no clipboard, but they copy what is selected. */
function copyBySelection(text: string): void {
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
