/** A control with its name above it, and what is wrong with it, or what it is, below. */
import { cloneElement, type VNode } from "preact";
import { useId } from "preact/hooks";

interface Props {
  label: string;
  /** What it means, where its name does not say. */
  hint?: string;
  /** What the service said of it. */
  fault?: string | null;
  /** The control itself: one input, select or textarea. */
  children: VNode<any>;
}

export function Field({ label, hint, fault, children }: Props) {
  const id = useId();
  const below = fault || hint;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {cloneElement(children, {
        id,
        "aria-invalid": fault ? "true" : undefined,
        "aria-describedby": below ? `${id}-below` : undefined,
      })}
      {below && <p id={`${id}-below`} class={fault ? "fault" : "hint"}>{below}</p>}
    </div>
  );
}
