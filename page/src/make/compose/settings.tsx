/** How the image is made: model, size and number before everybody, the rest behind one word. */
import { More } from "../../components/more";
import { NumberField } from "../../components/number_field";
import { SelectField } from "../../components/select_field";
import { Field } from "../../components/field";
import { change, draft, faults, type Draft } from "../state/draft";
import { applications, chosen, guide, makers, maxImages } from "../state/served";

type Numeric = "width" | "height" | "steps" | "guidance" | "seed" | "deadline_s" | "strength";

export function Settings() {
  return (
    <>
      <div class="fields">
        <Model />
        <NumberField name="n" label="Images" min={1} max={maxImages.value} value={draft.value.n} fault={faults.value.get("n")} onChange={(n) => change({ n: n ?? 1 })} />
      </div>
      <Size />
      <More title="More settings" isNeeded={hasAdvanced(draft.value)}>
        <Negative />
        <div class="fields">
          <Number name="steps" label="Steps" placeholder={guide.value?.steps.default} min={1} />
          <Number name="guidance" label="Guidance" placeholder={guide.value?.default_guidance} min={0} max={30} step="any" />
          <Number name="seed" label="Seed" placeholder="random" min={0} />
          <Number name="deadline_s" label="Deadline (s)" placeholder="none" min={1} step="any" />
          <SelectField name="quality" label="Quality" value={draft.value.quality} fault={faults.value.get("quality")} options={[["auto", "As planned"], ["exact", "Exact"]]} onChange={(quality) => change({ quality })} />
          <Sampler />
          <Application />
        </div>
      </More>
    </>
  );
}

/** Whether anything is said that the closed part would hide. */
function hasAdvanced(said: Draft): boolean {
  const { negative_prompt, steps, guidance, seed, deadline_s, quality, scheduler, application } = said;
  const isSaid = [steps, guidance, seed, deadline_s, scheduler, application].some((each) => each !== null);
  return isSaid || negative_prompt !== "" || quality !== "auto";
}

export function Number({ name, label, placeholder, ...rest }: { name: Numeric; label: string; placeholder?: string | number | undefined; min?: number; max?: number; step?: number | "any" }) {
  return <NumberField name={name} label={label} value={draft.value[name]} fault={faults.value.get(name)} placeholder={placeholder?.toString()} onChange={(value) => change({ [name]: value })} {...rest} />;
}

function Model() {
  const options = makers.value.map(({ id }) => [id, id] as const);
  return <SelectField name="model" label="Model" value={draft.value.model ?? ""} fault={faults.value.get("model")} options={[["", "Any that fits"], ...options]} onChange={(model) => change({ model: model || null })} />;
}

function Size() {
  const size = guide.value?.sizes;
  if (draft.value.picture && draft.value.use === "edit") return null; // an edit has the size of its template
  return (
    <div class="fields">
      <Number name="width" label="Width" placeholder={size?.default} min={1} step={size?.multiple ?? 1} />
      <Number name="height" label="Height" placeholder={size?.default} min={1} step={size?.multiple ?? 1} />
    </div>
  );
}

function Negative() {
  return (
    <Field label="Negative prompt" hint="What the image must not show." fault={faults.value.get("negative_prompt")}>
      <textarea name="negative_prompt" rows={2} value={draft.value.negative_prompt} onInput={(event) => change({ negative_prompt: event.currentTarget.value })} />
    </Field>
  );
}

function Sampler() {
  const known = (chosen.value ? [chosen.value] : makers.value).flatMap((each) => each.samplers);
  const options = [...new Set(known)].map((name) => [name, name] as const);
  return <SelectField name="scheduler" label="Sampler" value={draft.value.scheduler ?? ""} fault={faults.value.get("scheduler")} options={[["", "The model's own"], ...options]} onChange={(scheduler) => change({ scheduler: scheduler || null })} />;
}

function Application() {
  const options = applications.value.map((name) => [name === "default" ? "" : name, name] as const);
  return <SelectField name="application" label="Application" value={draft.value.application ?? ""} fault={faults.value.get("application")} options={options.length ? options : [["", "default"]]} onChange={(application) => change({ application: application || null })} />;
}
