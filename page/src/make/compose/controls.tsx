/** ControlNets, each with the picture that the image keeps to. */
import { Plus, X } from "lucide";
import { Button, IconButton } from "../../components/button";
import { NumberField } from "../../components/number_field";
import { PictureDrop } from "../../components/picture_drop";
import { RangeField } from "../../components/range_field";
import { SelectField } from "../../components/select_field";
import { useBlobUrl } from "../../components/use_blob_url";
import { change, draft, faults, type ControlUse, type Picture } from "../state/draft";
import { read } from "../state/pictures";
import { controlnets, maxControls, type ControlNet } from "../state/served";

/** Those that steer the model that was chosen. */
function steering(): ControlNet[] {
  const model = draft.value.model;
  return controlnets.value.filter((each) => model === null || each.models.includes(model));
}

export function Controls() {
  const used = draft.value.controls;
  const first = steering()[0];
  const add = (id: string) => change({ controls: [...used, { id, picture: null, scale: 1, start: 0, end: 1, mode: null }] });
  return (
    <fieldset class="adapters">
      <legend>ControlNets</legend>
      {used.map((each, at) => <Control key={at} at={at} use={each} />)}
      {first && used.length < maxControls.value && <Button look="plain" icon={Plus} onClick={() => add(first.id)}>Add a ControlNet</Button>}
      {faults.value.has("controls") && <p class="fault">{faults.value.get("controls")}</p>}
      {!first && !used.length && <p class="hint">None that steers this model.</p>}
    </fieldset>
  );
}

function Control({ at, use }: { at: number; use: ControlUse }) {
  const { controls } = draft.value;
  const set = (fields: Partial<ControlUse>) => change({ controls: controls.map((each, i) => (i === at ? { ...each, ...fields } : each)) });
  const known = controlnets.value.find((each) => each.id === use.id);
  const options = [...new Set([use.id, ...steering().map(({ id }) => id)])].map((id) => [id, id.length > 20 ? id.slice(0, 8) : id] as const);
  const fault = (name: string) => faults.value.get(`controls.${at}.${name}`);
  return (
    <div class="adapter" role="group" aria-label={`ControlNet ${at + 1}`}>
      <div class="adapter-head">
        <SelectField name={`control-${at}`} label="Keeps to" value={use.id} options={options} fault={fault("id")} hint={known?.condition || undefined} onChange={(id) => set({ id, mode: null })} />
        <IconButton icon={X} label={`Without ControlNet ${at + 1}`} onClick={() => change({ controls: controls.toSpliced(at, 1) })} />
      </div>
      {use.picture
        ? <Given picture={use.picture} fault={fault("image")} onRemove={() => set({ picture: null })} />
        : <PictureDrop label="Its picture" fault={fault("image")} onPick={async (file) => set({ picture: await read(file, file.name) })} />}
      <RangeField label="Scale" min={0} max={2} step={0.05} value={use.scale} fault={fault("scale")} onChange={(scale) => set({ scale })} />
      <div class="fields">
        <RangeField label="From" min={0} max={1} step={0.05} value={use.start} fault={fault("start")} onChange={(start) => set({ start })} />
        <RangeField label="To" min={0} max={1} step={0.05} value={use.end} fault={fault("end")} onChange={(end) => set({ end })} />
      </div>
      {(known?.modes ?? 0) > 0 && <NumberField name={`mode-${at}`} label="Kind of picture" min={0} max={known!.modes! - 1} value={use.mode} fault={fault("mode")} onChange={(mode) => set({ mode })} />}
    </div>
  );
}

function Given({ picture, fault, onRemove }: { picture: Picture; fault: string | undefined; onRemove: () => void }) {
  const url = useBlobUrl(picture.blob);
  return (
    <div class="chosen">
      <div class="chosen-picture">{url && <img src={url} alt={picture.name} />}</div>
      <div class="chosen-side">
        <p class="quiet small num">{picture.width} × {picture.height}</p>
        {fault && <p class="fault">{fault}</p>}
      </div>
      <IconButton icon={X} label="Another picture" onClick={onRemove} />
    </div>
  );
}
