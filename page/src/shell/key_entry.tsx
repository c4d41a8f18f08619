/** Ask for the key of a service that wants one. */
import { useRef } from "preact/hooks";
import { key, keyWanted, useKey } from "../api/key";
import { Button } from "../components/button";
import { Field } from "../components/field";

export function KeyEntry() {
  const input = useRef<HTMLInputElement>(null);
  const enter = (event: Event) => {
    event.preventDefault();
    const given = input.current!.value.trim();
    if (given) useKey(given);
  };
  return (
    <form class="card key-entry" onSubmit={enter}>
      <h1>This service asks for a key</h1>
      <p class="quiet">It is kept in this tab alone, and forgotten when the tab is closed. An operator makes one with <code>atelier keys add</code>.</p>
      <Field label="API key" fault={key.value ? keyWanted.value : null}>
        <input ref={input} type="password" autocomplete="off" spellcheck={false} autofocus required />
      </Field>
      <Button type="submit">Go on</Button>
    </form>
  );
}
