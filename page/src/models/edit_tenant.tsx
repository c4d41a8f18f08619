/** Change what one tenant may do; a field left empty takes the default back. */
import { useState } from "preact/hooks";
import { api, type Schemas } from "../api/client";
import { Problem, sentence } from "../api/problem";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { NumberField } from "../components/number_field";
import { Notice } from "../components/notice";
import { say } from "../components/toast";
import { LIMITS, type LimitName } from "./limits";

type Tenant = Schemas["TenantView"];
type Said = Record<LimitName | "weight", number | null>;

interface Props {
  of: Tenant;
  onClose: () => void;
  onChanged: () => void;
}

export function EditTenant({ of: tenant, onClose, onChanged }: Props) {
  const [said, setSaid] = useState<Said>(() => own(tenant));
  const [fault, setFault] = useState<unknown>(null);
  const change = async (event: Event) => {
    event.preventDefault();
    const limits = LIMITS.map(({ name, unit }) => [name, sent(said[name], unit)] as const);
    const body = { weight: said.weight, ...Object.fromEntries(limits) };
    try {
      await api.PATCH("/v1/tenants/{tenant}", { params: { path: { tenant: tenant.name } }, body });
      say(`${tenant.name} is changed`);
      onChanged();
      onClose();
    } catch (error) {
      setFault(error);
    }
  };
  const wrong = fault instanceof Problem ? fault.fields : new Map<string, string>();
  return (
    <Dialog title={`Limits of ${tenant.name}`} onClose={onClose}>
      <form onSubmit={change}>
        <div class="dialog-body form">
          <p class="quiet small">What is left empty is as the settings have it.</p>
          <NumberField name="weight" label="Weight: served so many times as often as others" step="any" min={0} value={said.weight} fault={wrong.get("weight")} placeholder={shown(tenant.weight)} onChange={(weight) => setSaid({ ...said, weight })} />
          {LIMITS.map(({ name, title, hint, unit }) => (
            <NumberField
              key={name} name={name} label={`${title}. ${hint}`} step="any" min={0} value={said[name]} fault={wrong.get(name)}
              placeholder={shown(tenant.limits[name], unit)} onChange={(value) => setSaid({ ...said, [name]: value })}
            />
          ))}
          {fault !== null && wrong.size === 0 && <Notice kind="bad">{sentence(fault)}</Notice>}
        </div>
        <footer class="dialog-foot">
          <Button look="plain" onClick={onClose}>Cancel</Button>
          <Button type="submit">Save</Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** What is said of this tenant alone, in the units that people write. */
function own({ own, limits, weight }: Tenant): Said {
  const entries = LIMITS.map(({ name, unit }) => [name, own.includes(name) && limits[name] !== null ? limits[name]! / unit : null] as const);
  return { weight: own.includes("weight") ? weight : null, ...Object.fromEntries(entries) } as Said;
}

/** A limit in the unit of the service, of which bytes are whole. */
function sent(value: number | null, unit: number): number | null {
  return value === null || unit === 1 ? value : Math.round(value * unit);
}

function shown(value: number | null, unit = 1): string {
  return value === null ? "no limit" : String(value / unit);
}
