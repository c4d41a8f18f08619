/** The name, the three views, and what holds for all of them: colours, key, reference. */
import { BookOpen, KeyRound, Monitor, Moon, Sun } from "lucide";
import { BASE } from "../api/client";
import { forgetKey, key, keyWanted } from "../api/key";
import { IconButton } from "../components/button";
import { Icon } from "../components/icon";
import { VIEWS, view } from "./route";
import { nextTheme, theme } from "./theme";

const TITLES = { make: "Make", fleet: "Fleet", models: "Models" };
const THEME_ICONS = { system: Monitor, light: Sun, dark: Moon };

export function Header() {
  return (
    <header class="top">
      <a class="brand" href="#/make" aria-label="Atelier, to the first view">
        <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" /><path d="M8.5 23 16 8.5 23.5 23" /><circle cx="16" cy="20.5" r="2.4" /></svg>
        <span>Atelier</span>
      </a>
      <nav aria-label="Views">
        {VIEWS.map((each) => (
          <a key={each} href={`#/${each}`} aria-current={view.value === each ? "page" : undefined}>{TITLES[each]}</a>
        ))}
      </nav>
      <div class="tools">
        {key.value && <IconButton icon={KeyRound} label="Forget the key" onClick={leave} />}
        <IconButton icon={THEME_ICONS[theme.value]} label={`Colours: ${theme.value}`} onClick={nextTheme} />
        <a class="button icon ghost" href={`${BASE}/docs`} aria-label="API reference" title="API reference"><Icon of={BookOpen} /></a>
      </div>
    </header>
  );
}

function leave(): void {
  forgetKey();
  keyWanted.value = "The key is forgotten.";
}
