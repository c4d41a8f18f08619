/** What an operator looks for first, each figure with the hour that led to it. */
import type { Schemas } from "../api/client";
import { Sparkline } from "../charts/sparkline";
import { count, percent, price, rate } from "../format/number";
import { seconds } from "../format/time";
import { cost, deviceSeconds, lately, latest, perSecond, quality, total, type Period } from "./hour";
import type { Plan } from "./plan_rows";

interface Props {
  fleet: Schemas["FleetView"];
  plan?: Plan;
  history: readonly Period[];
}

interface Figure {
  name: string;
  value: string;
  more: string;
  trend?: readonly (number | null)[];
  tone?: "good" | "warn" | "bad";
}

export function Summary({ fleet, plan, history }: Props) {
  return (
    <dl class="figures">
      {figures(fleet, plan, history).map(({ name, value, more, trend, tone }) => (
        <div key={name} class={`card figure ${tone ?? ""}`}>
          <dt>{name}</dt>
          <dd>
            <b class="num">{value}</b>
            <span class="small quiet">{more}</span>
          </dd>
          {trend && <Sparkline values={trend} colour="var(--series-1)" />}
        </div>
      ))}
    </dl>
  );
}

function figures(fleet: Props["fleet"], plan: Props["plan"], history: readonly Period[]): Figure[] {
  const arrivals = lately(history, "accepted");
  const forecast = plan ? Object.values(plan.demand).reduce((sum, each) => sum + each, 0) : null;
  const waiting = fleet.queues.reduce((sum, queue) => sum + queue.waiting, 0);
  const oldest = Math.max(0, ...fleet.queues.map((queue) => queue.oldest_s));
  const running = fleet.workers.reduce((sum, worker) => sum + worker.running, 0);
  const slots = fleet.workers.reduce((sum, worker) => sum + worker.max_slots, 0);
  const [p50, p95] = [latest(history, "p50_s"), latest(history, "p95_s")];
  const ended = total(history, "succeeded") + total(history, "failed");
  const late = ended ? total(history, "late") / ended : null;
  const mean = quality(history);
  return [
    {
      name: "Jobs a second",
      value: arrivals === null ? "–" : rate(arrivals),
      more: forecast === null ? "no plan yet" : `planned for ${rate(forecast)}`,
      trend: history.map((period) => perSecond(period, "accepted")),
    },
    {
      name: "Latency, p95",
      value: p95 === null ? "–" : seconds(p95),
      more: p50 === null ? "no job ended lately" : `half within ${seconds(p50)}`,
      trend: history.map((period) => period.p95_s),
    },
    {
      name: "Waiting",
      value: count(waiting),
      more: waiting ? `the first for ${seconds(oldest)}` : "no job waits",
      trend: history.map((period) => period.queued),
    },
    {
      name: "Batches",
      value: slots ? percent(running / slots) : "–",
      more: `${count(running)} of ${count(slots)} slots taken`,
      trend: history.map((period) => (period.slots ? period.running / period.slots : null)),
    },
    {
      name: "Saturation",
      value: plan ? percent(plan.saturation) : "–",
      more: plan?.saturation ? "of the demand finds no room" : "all demand finds room",
      trend: history.map((period) => period.saturation),
      tone: plan && plan.saturation > 0 ? "bad" : undefined,
    },
    {
      name: "Quality",
      value: mean === null ? "–" : mean.toFixed(2),
      more: mean === null ? "no image was scored" : `${count(total(history, "scored"))} images scored`,
      trend: history.map((period) => period.quality),
    },
    {
      name: "Late or failed",
      value: late === null ? "–" : percent(late),
      more: troubles(history),
      trend: history.map((period) => period.late),
      tone: late !== null && late > 0.05 ? "bad" : late !== null && late > 0.01 ? "warn" : undefined,
    },
    spent(history),
  ];
}

function troubles(history: readonly Period[]): string {
  const [failed, buried, again] = (["failed", "buried", "redelivered"] as const).map((name) => total(history, name));
  if (buried) return `${count(failed!)} failed, ${count(buried)} given up`;
  return again ? `${count(failed!)} failed, ${count(again)} tried again` : `${count(failed!)} failed in the hour`;
}

/** What the hour took: money where prices are known, else time. */
function spent(history: readonly Period[]): Figure {
  const made = total(history, "succeeded");
  const money = cost(history);
  const time = deviceSeconds(history);
  if (money === null) {
    return { name: "Device time", value: seconds(time), more: made ? `${seconds(time / made)} a job, over the hour` : "over the last hour" };
  }
  return {
    name: "Cost of the hour",
    value: price(money),
    more: made ? `${price(money / made)} a job; ${seconds(time)} of devices` : `${seconds(time)} of devices`,
    trend: history.map((period) => period.cost),
  };
}
