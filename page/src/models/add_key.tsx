/** Make a key for a tenant, who may be new. */
import { useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { Problem, sentence } from "../api/problem";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { Field } from "../components/field";
import { Notice } from "../components/notice";
import { SelectField } from "../components/select_field";

type Scope = Schemas["Scope"];

interface Props {
  onClose: () => void;
  onMade: (made: Schemas["NewKeyView"]) => void;
}

const SCOPES: readonly (readonly [Scope, string])[] = [
  ["submit", "ask for images, keep and delete what is the tenant's"],
  ["read", "read what is the tenant's"],
  ["operate", "see and change what is all tenants': fleet, models, keys"],
];

const DAY_S = 86_400;
const LIVES = [["", "Never"], ["7", "After 7 days"], ["30", "After 30 days"], ["90", "After 90 days"], ["365", "After a year"]] as const;

export function AddKey({ onClose, onMade }: Props) {
  const [tenant, setTenant] = useState("");
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["submit", "read"]);
  const [days, setDays] = useState<(typeof LIVES)[number][0]>("");
  const [fault, setFault] = useState<unknown>(null);
  const isBusy = useSignal(false);

  const make = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    const life = days ? { expires_in_s: Number(days) * DAY_S } : {};
    try {
      onMade(await body(api.POST("/v1/keys", { body: { tenant, name, scopes: [...scopes], ...life } })));
    } catch (error) {
      setFault(error);
      isBusy.value = false;
    }
  };
  const toggle = (scope: Scope) => setScopes(scopes.includes(scope) ? scopes.filter((each) => each !== scope) : [...scopes, scope]);
  const wrong = fault instanceof Problem ? fault.fields : new Map<string, string>();
  return (
    <Dialog title="Make a key" onClose={onClose}>
      <form onSubmit={make}>
        <div class="dialog-body form">
          <Field label="Tenant" fault={wrong.get("tenant") ?? null} hint="Letters, digits, _ and -. Its jobs, images and files are seen with its keys alone.">
            <input required autofocus name="tenant" maxLength={64} pattern="[A-Za-z0-9][A-Za-z0-9_\-]*" autocomplete="off" spellcheck={false} value={tenant} onInput={(event) => setTenant(event.currentTarget.value)} />
          </Field>
          <Field label="Name, for people" fault={wrong.get("name") ?? null}>
            <input name="name" maxLength={100} autocomplete="off" placeholder="where it is used" value={name} onInput={(event) => setName(event.currentTarget.value)} />
          </Field>
          <fieldset class="scopes">
            <legend>What it may do</legend>
            {SCOPES.map(([scope, meaning]) => (
              <label key={scope} class="check">
                <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} />
                <span><b>{scope}</b> <span class="small quiet">{meaning}</span></span>
              </label>
            ))}
          </fieldset>
          <SelectField name="life" label="Expires" value={days} options={LIVES} onChange={setDays} fault={wrong.get("expires_in_s")} />
          {fault !== null && wrong.size === 0 && <Notice kind="bad">{sentence(fault)}</Notice>}
        </div>
        <footer class="dialog-foot">
          <Button look="plain" onClick={onClose}>Cancel</Button>
          <Button type="submit" disabled={!scopes.length || isBusy.value}>Make it</Button>
        </footer>
      </form>
    </Dialog>
  );
}
