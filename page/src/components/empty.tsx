/** What stands where there is nothing yet: a drawing, what would be here, and how it comes. */
import type { IconNode } from "lucide";
import type { ComponentChildren } from "preact";
import { Icon } from "./icon";

export function Empty({ icon, title, children }: { icon: IconNode; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon of={icon} />
      <h3>{title}</h3>
      {children && <p class="quiet">{children}</p>}
    </div>
  );
}
