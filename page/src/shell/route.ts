/** Which view is shown, as the address says after its `#`. */
import { signal } from "@preact/signals";

export const VIEWS = ["make", "fleet", "models"] as const;
export type View = (typeof VIEWS)[number];

function read(): View {
  const named = location.hash.replace(/^#\/?/, "").split("/")[0];
  return VIEWS.find((each) => each === named) ?? "make";
}

export const view = signal<View>(read());

addEventListener("hashchange", () => {
  view.value = read();
});
