/** The workers: what each holds, gets ready and makes. */
import type { Schemas } from "../api/client";
import { Meter } from "../charts/meter";
import { gib, percent } from "../format/number";
import { seconds } from "../format/time";
import type { Plan } from "./plan_rows";

type Worker = Schemas["WorkerView"];

interface Props {
  workers: readonly Worker[];
  plan?: Plan;
}

const STAGES = { room: "waits for room", reading: "is read", timing: "is timed" };

export function Workers({ workers, plan }: Props) {
  return (
    <section aria-labelledby="workers">
      <h2 id="workers">Workers <span class="quiet num">{workers.length}</span></h2>
      {!workers.length && <p class="card quiet">No worker reports. Start one with <code>python -m run.worker</code>, or see what the log of those says that should run.</p>}
      {workers.length > 0 && (
        <table class="card rows workers">
          <thead>
            <tr>
              <th scope="col">Worker</th><th scope="col">Models</th><th scope="col">Batch</th>
              <th scope="col">Memory</th><th scope="col" class="num">A step</th>
            </tr>
          </thead>
          <tbody>{workers.map((worker) => <Row key={worker.name} worker={worker} planned={plan?.workers[worker.name]} />)}</tbody>
        </table>
      )}
    </section>
  );
}

function Row({ worker, planned }: { worker: Worker; planned?: string }) {
  const used = worker.models.reduce((sum, model) => sum + (worker.needs_gib[model] ?? 0), 0);
  return (
    <tr>
      <th scope="row">
        {worker.name}
        <span class="small quiet">{worker.device_type}{worker.slowness > 1.2 && `, ${worker.slowness.toFixed(1)} times as slow as profiled`}</span>
      </th>
      <td data-label="Models">
        <span class="tags">
          {worker.models.map((model) => (
            <span key={model} class={model === planned ? "tag good" : "tag"} title={model === planned ? "As planned" : undefined}>{model}</span>
          ))}
          {planned && !worker.models.includes(planned) && worker.loading?.model !== planned && <span class="tag warn">{planned} is due</span>}
        </span>
        {worker.loading && <Warming of={worker.loading} />}
        {Object.entries(worker.failures).map(([model, why]) => <span key={model} class="fault small">{model}: {why}</span>)}
      </td>
      <td data-label="Batch">
        <Meter label={`Slots of ${worker.name}`} value={worker.running / Math.max(1, worker.max_slots)} />
        <span class="small num">{worker.running} of {worker.max_slots}{worker.waiting > 0 && `, ${worker.waiting} next`}</span>
      </td>
      <td data-label="Memory">
        <Meter label={`Memory of ${worker.name}`} value={used / (worker.memory_gib || 1)} />
        <span class="small num">{gib(used)} of {gib(worker.memory_gib)}</span>
      </td>
      <td data-label="A step" class="num">{worker.step_s ? seconds(worker.step_s) : "–"}</td>
    </tr>
  );
}

function Warming({ of: { model, stage, seconds: since, fraction } }: { of: Schemas["WarmingView"] }) {
  return (
    <span class="warming small">
      <progress max={1} value={fraction ?? undefined} aria-label={`${model} is made ready`} />
      {model} {STAGES[stage]}, {fraction === null ? `for ${seconds(since)}` : percent(Math.min(1, fraction))}
    </span>
  );
}
