/** One model: its name, where it stands, and its facts. */
import { Trash2 } from "lucide";
import type { Schemas } from "../api/client";
import { IconButton } from "../components/button";
import { gib } from "../format/number";

type Model = Schemas["ModelView"];

export function ModelCard({ model, onRemove }: { model: Model; onRemove?: (() => void) | undefined }) {
  const [state, tone] = stateOf(model);
  return (
    <li class="card model">
      <header>
        <h3>{model.id}</h3>
        <span class={`tag ${tone}`}>{state}</span>
        {onRemove && <IconButton icon={Trash2} label={`Remove ${model.id}`} onClick={onRemove} />}
      </header>
      <Facts of={model} />
      <details>
        <summary>What it makes<span class="only-heard">: {model.id}</span></summary>
        <dl class="model-facts">
          {Object.entries(made(model)).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        </dl>
      </details>
    </li>
  );
}

export function Facts({ of: model }: { of: Model }) {
  return (
    <dl class="model-facts">
      {Object.entries(facts(model)).map(([name, value]) => <div key={name}><dt>{name}</dt><dd class="num">{value}</dd></div>)}
    </dl>
  );
}

function stateOf(model: Model): [string, string] {
  if (model.is_resident) return ["on a worker", "good"];
  if (model.untried_on.length) return [`not timed on ${model.untried_on.join(", ")}`, "warn"];
  return model.is_loadable ? ["can be loaded", ""] : ["no worker can load it", "bad"];
}

function facts({ family, size_gib, quality, weights }: Model): Record<string, string> {
  return {
    Family: family,
    Memory: gib(size_gib),
    ...(weights && { Weights: `${parameters(weights.parameters)} ${weights.dtypes.join(", ")}` }),
    Quality: quality === null ? "not known" : quality.toFixed(2),
  };
}

function made(model: Model): Record<string, string> {
  const { sizes, steps, weights } = model;
  return {
    Tasks: model.tasks.join(", "),
    Sizes: `${sizes.min} to ${sizes.max} px, in steps of ${sizes.multiple}; ${sizes.default} unless asked`,
    Steps: `${steps.default} unless asked, at most ${steps.max}`,
    Samplers: model.samplers.join(", ") || "its own",
    Levels: model.levels.join(", "),
    "Tokens of a prompt": String(model.max_prompt_tokens),
    ...(weights && { Pipeline: weights.distilled ? `${weights.pipeline}, ${weights.distilled}` : weights.pipeline, Scheduler: weights.scheduler }),
  };
}

function parameters(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} B`;
  return count >= 1e6 ? `${(count / 1e6).toFixed(count < 1e7 ? 1 : 0)} M` : `${Math.round(count / 1e3)} k`;
}
