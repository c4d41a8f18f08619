/** LoRAs that change the model, each with how strongly it acts. */
import { Plus, X } from "lucide";
import { Button, IconButton } from "../../components/button";
import { RangeField } from "../../components/range_field";
import { change, draft, faults, type LoraUse } from "../state/draft";
import { loras, type Lora } from "../state/served";

/** Those that fit the model that was chosen. */
function fitting(): Lora[] {
  const model = draft.value.model;
  return loras.value.filter((each) => model === null || each.models.includes(model));
}

export function Loras() {
  const used = draft.value.loras;
  const left = fitting().filter((each) => used.every(({ id }) => id !== each.id));
  const set = (at: number, fields: Partial<LoraUse>) => change({ loras: used.map((each, i) => (i === at ? { ...each, ...fields } : each)) });
  return (
    <fieldset class="adapters">
      <legend>LoRAs</legend>
      {used.map((each, at) => (
        <div key={each.id} class="adapter" role="group" aria-label={nameOf(each.id)}>
          <div class="adapter-head">
            <strong>{nameOf(each.id)}</strong>
            <IconButton icon={X} label={`Without ${nameOf(each.id)}`} onClick={() => change({ loras: used.toSpliced(at, 1) })} />
          </div>
          <RangeField label="Scale" min={-2} max={2} step={0.05} value={each.scale} fault={faultOf(at)} onChange={(scale) => set(at, { scale })} />
        </div>
      ))}
      {left.length > 0 && <Button look="plain" icon={Plus} onClick={() => change({ loras: [...used, { id: left[0]!.id, scale: 1 }] })}>Add {nameOf(left[0]!.id)}</Button>}
      {faults.value.has("loras") && <p class="fault">{faults.value.get("loras")}</p>}
      {!used.length && !left.length && <p class="hint">None that fits. The view Models takes their files.</p>}
    </fieldset>
  );
}

/** They have ids and no names: the beginning of one tells it from others. */
function nameOf(id: string): string {
  return `LoRA ${id.slice(0, 8)}`;
}

function faultOf(at: number): string | undefined {
  return [...faults.value].find(([path]) => path === `loras.${at}` || path.startsWith(`loras.${at}.`))?.[1];
}
