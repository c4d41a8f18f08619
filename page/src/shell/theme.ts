/** Dark or light: as the system has it, unless the person chose one. */
import { effect, signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED_AS = "theme";
const stored = localStorage.getItem(STORED_AS);

export const theme = signal<Theme>(THEMES.find((each) => each === stored) ?? "system");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(STORED_AS, theme.value);
});

/** Go on to the next of the three. */
export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
}
