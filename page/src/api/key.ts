/** The key that requests carry, kept until the tab is closed. */
import { signal } from "@preact/signals";

const STORED_AS = "key";
/** Where the tab keeps the form, which goes with the key. */
export const FORM_STORED_AS = "draft";

/** What the person gave; empty: none. */
export const key = signal(sessionStorage.getItem(STORED_AS) ?? "");

/** Why the service wants a key, as it said last; null: it takes requests as they are. */
export const keyWanted = signal<string | null>(null);

/** Use a key from now on. */
export function useKey(given: string): void {
  sessionStorage.setItem(STORED_AS, given);
  key.value = given;
  keyWanted.value = null;
}

/** Forget the key, here and in the tab, and what was said in the form with it. */
export function forgetKey(): void {
  sessionStorage.removeItem(STORED_AS);
  sessionStorage.removeItem(FORM_STORED_AS);
  key.value = "";
}

/** The header that says who asks. */
export function authorization(): Record<string, string> {
  return key.value ? { Authorization: `Bearer ${key.value}` } : {};
}

/** Take note of the key; what is returned tells whether it is still the one in use. */
export function notedKey(): () => boolean {
  const noted = key.value;
  return () => key.value === noted;
}
