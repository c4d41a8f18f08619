/** A word about what was just done, for some seconds, over dialogs too. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

const SHOWN_MS = 3500;
const said = signal("");
let timer = 0;

export function say(sentence: string): void {
  clearTimeout(timer);
  said.value = sentence;
  timer = window.setTimeout(() => (said.value = ""), SHOWN_MS);
}

export function Toast() {
  const box = useRef<HTMLDivElement>(null);
  const text = said.value;
  useEffect(() => {
    if (!text) return;
    box.current!.hidePopover(); // what is shown last is on top
    box.current!.showPopover();
  }, [text]);
  return <div ref={box} class="toast" role="status" popover="manual" data-shown={text !== ""}>{text}</div>;
}
