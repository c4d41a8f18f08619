/** One part of the view: its title, what can be done, and what went wrong. */
import type { ComponentChildren } from "preact";
import { Notice } from "../components/notice";

interface Props {
  title: string;
  /** What these things are, in a sentence. */
  hint: string;
  actions?: ComponentChildren;
  fault?: string | null;
  children: ComponentChildren;
}

export function Part({ title, hint, actions, fault = null, children }: Props) {
  return (
    <section class="part" aria-labelledby="part">
      <header class="part-head">
        <div>
          <h2 id="part">{title}</h2>
          <p class="quiet small">{hint}</p>
        </div>
        {actions && <div class="part-actions">{actions}</div>}
      </header>
      {fault && <Notice kind="bad">{fault}</Notice>}
      {children}
    </section>
  );
}
