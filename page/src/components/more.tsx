/** A part of a form that is closed until it is wanted, or has something to say. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export function More({ title, isNeeded, children }: { title: string; isNeeded: boolean; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(isNeeded);
  useEffect(() => void (isNeeded && setOpen(true)), [isNeeded]);
  return (
    <details class="more" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      <div class="more-body">{children}</div>
    </details>
  );
}
