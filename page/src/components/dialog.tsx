/** A native modal dialog: it keeps the focus, closes on Escape, and gives the focus back. */
import { X } from "lucide";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "./button";

interface Props {
  title: string;
  /** `medium` is for code, `wide` takes most of the window. */
  size?: "small" | "medium" | "wide";
  onClose: () => void;
  /** Keys pressed anywhere in it. */
  onKeyDown?: (event: KeyboardEvent) => void;
  /** Beside the title. */
  tools?: ComponentChildren;
  children: ComponentChildren;
}

export function Dialog({ title, size = "small", onClose, onKeyDown, tools, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current!.showModal();
    return () => before?.focus();
  }, []);
  const closeOutside = (event: MouseEvent) => event.target === dialog.current && onClose();
  const keys = (event: KeyboardEvent) => {
    event.stopPropagation(); // what holds the dialog, a form or another dialog, has keys of its own
    onKeyDown?.(event);
  };
  return (
    <dialog ref={dialog} class={`dialog ${size}`} aria-labelledby={id} onClose={onClose} onMouseDown={closeOutside} onKeyDown={keys}>
      <div class="dialog-frame">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <div class="dialog-tools">{tools}<IconButton icon={X} label="Close" onClick={onClose} /></div>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Ask before something is taken away for good. */
export function Confirm({ title, verb, onYes, onNo, children }: { title: string; verb: string; onYes: () => void; onNo: () => void; children: ComponentChildren }) {
  return (
    <Dialog title={title} onClose={onNo}>
      <div class="dialog-body">{children}</div>
      <footer class="dialog-foot">
        <button type="button" class="button plain" onClick={onNo}>Keep it</button>
        <button type="button" class="button danger" onClick={onYes}>{verb}</button>
      </footer>
    </Dialog>
  );
}
