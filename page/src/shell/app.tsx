/** The frame of all views: header, the key where one is asked for, and the view itself. */
import { keyWanted } from "../api/key";
import { Toast } from "../components/toast";
import { Header } from "./header";
import { KeyEntry } from "./key_entry";
import { Lazy } from "./lazy";
import { view, type View } from "./route";

const PARTS = {
  make: () => import("../make"),
  fleet: () => import("../fleet"),
  models: () => import("../models"),
} satisfies Record<View, unknown>;

export function App() {
  return (
    <>
      <a class="skip" href="#main" onClick={focusMain}>Skip to the content</a>
      <Header />
      <main id="main" tabIndex={-1}>
        {keyWanted.value === null ? <Lazy fetch={PARTS[view.value]} /> : <KeyEntry />}
      </main>
      <Toast />
    </>
  );
}

function focusMain(event: Event): void {
  event.preventDefault(); // the part after # names the view
  document.getElementById("main")?.focus();
}
