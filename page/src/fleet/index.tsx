/** The view "Fleet": how the whole service does, for operators. */
import { Pause, Play, RefreshCw } from "lucide";
import { useState } from "preact/hooks";
import { api, body } from "../api/client";
import { faultOf, usePolled } from "../api/polled";
import { Problem } from "../api/problem";
import { IconButton } from "../components/button";
import { Notice } from "../components/notice";
import { Demand } from "./demand";
import { paletteOf } from "./levels";
import { NotForThisKey } from "./not_for_this_key";
import { OverTime } from "./over_time";
import { PlanPicture } from "./plan_picture";
import { levelsOf } from "./plan_rows";
import { Queues } from "./queues";
import { Summary } from "./summary";
import { Workers } from "./workers";
import "../charts/charts.css";
import "../styles/tables.css";
import "./fleet.css";

const OFTEN_MS = 3_000;
const PLAN_MS = 5_000;
const HISTORY_MS = 15_000;
const MODELS_MS = 60_000;

export default function Fleet() {
  const [isPaused, setPaused] = useState(false);
  const fleet = usePolled(() => body(api.GET("/v1/fleet")), OFTEN_MS, isPaused);
  const plan = usePolled(() => api.GET("/v1/plan").then(({ data }) => data, noneYet), PLAN_MS, isPaused);
  const history = usePolled(() => body(api.GET("/v1/history")), HISTORY_MS, isPaused);
  const models = usePolled(() => body(api.GET("/v1/models")), MODELS_MS, isPaused);
  const every = [fleet, plan, history, models];

  if (fleet.fault instanceof Problem && fleet.fault.kind === "missing-scope") return <NotForThisKey />;
  const periods = history.data?.data ?? [];
  const levels = [...(plan.data ? levelsOf(plan.data) : []), ...periods.flatMap(({ images }) => Object.keys(images))];
  const palette = paletteOf(levels, models.data?.data ?? []);
  const fault = faultOf(...every);
  return (
    <div class="fleet">
      <header class="view-head">
        <h1>Fleet</h1>
        <div class="tools">
          <IconButton icon={RefreshCw} label="Look now" onClick={() => every.forEach(({ again }) => again())} />
          <IconButton icon={isPaused ? Play : Pause} label={isPaused ? "Follow again" : "Hold still"} onClick={() => setPaused(!isPaused)} />
        </div>
      </header>
      {fault && <Notice kind="bad">{fault}</Notice>}
      {!fleet.data && !fault && <p class="quiet" role="status">Loading…</p>}
      {fleet.data && <Summary fleet={fleet.data} plan={plan.data} history={periods} />}
      {history.data && <OverTime periods={periods} palette={palette} />}
      {fleet.data && <Workers workers={fleet.data.workers} plan={plan.data} />}
      <div class="side-by-side">
        {plan.data && <PlanPicture plan={plan.data} palette={palette} />}
        <div class="column">
          {fleet.data && <Queues queues={fleet.data.queues} />}
          {plan.data && <Demand plan={plan.data} />}
        </div>
      </div>
    </div>
  );
}

/** A service that has just started has no plan. */
function noneYet(fault: unknown): undefined {
  if (fault instanceof Problem && fault.status === 404) return undefined;
  throw fault;
}
