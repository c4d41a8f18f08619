/** A sentence about what just happened, said to screen readers as it comes. */
import type { ComponentChildren } from "preact";

export function Notice({ kind, children }: { kind: "bad" | "calm"; children: ComponentChildren }) {
  return <p class={`notice ${kind}`} role={kind === "bad" ? "alert" : "status"}>{children}</p>;
}
