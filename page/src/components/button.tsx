/** Buttons: with words, or with a drawing alone, which then has a name. */
import type { IconNode } from "lucide";
import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { Icon } from "./icon";

type Native = Omit<ButtonHTMLAttributes<HTMLButtonElement>, "icon" | "label">;

interface Props extends Native {
  /** `primary` is the one thing to do here; `danger` takes something away. */
  look?: "primary" | "plain" | "ghost" | "danger";
  icon?: IconNode;
  children?: ComponentChildren;
}

export function Button({ look = "primary", icon, children, type = "button", ...rest }: Props) {
  return (
    <button type={type} class={`button ${look}`} {...rest}>
      {icon && <Icon of={icon} />}
      {children}
    </button>
  );
}

interface IconProps extends Native {
  icon: IconNode;
  label: string;
  look?: "ghost" | "plain" | "danger";
}

export function IconButton({ icon, label, look = "ghost", type = "button", ...rest }: IconProps) {
  return (
    <button type={type} class={`button icon ${look}`} aria-label={label} title={label} {...rest}>
      <Icon of={icon} />
    </button>
  );
}
