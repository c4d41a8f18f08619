/** The last hour in six charts. */
import { TimeChart } from "../charts/time_chart";
import { count, percent, rate } from "../format/number";
import { seconds } from "../format/time";
import { perSecond, type Period } from "./hour";
import type { Palette } from "./levels";

interface Props {
  periods: readonly Period[];
  palette: Palette;
}

const [FIRST, SECOND, THIRD] = ["var(--series-1)", "var(--series-2)", "var(--series-3)"];

export function OverTime({ periods, palette }: Props) {
  if (!periods.length) {
    return <p class="card quiet">What happens over time is shown here from the second half minute on.</p>;
  }
  const times = periods.map(({ ended_at }) => ended_at);
  const of = (value: (period: Period) => number | null) => periods.map(value);
  return (
    <section aria-labelledby="over-time">
      <h2 id="over-time">The last hour</h2>
      <div class="charts card">
        <TimeChart
          title="Latency" hint="From acceptance to the images, of jobs that succeeded." times={times} format={seconds}
          series={[
            { name: "p50", values: of(({ p50_s }) => p50_s), colour: FIRST },
            { name: "p95", values: of(({ p95_s }) => p95_s), colour: SECOND },
          ]}
        />
        <TimeChart
          title="Jobs" hint="A second: what came, what was made, what was planned for." times={times} format={rate}
          series={[
            { name: "accepted", values: of((each) => perSecond(each, "accepted")), colour: FIRST },
            { name: "made", values: of((each) => perSecond(each, "succeeded")), colour: SECOND },
            { name: "forecast", values: of(({ forecast }) => forecast), colour: THIRD, isDashed: true },
          ]}
        />
        <TimeChart
          title="Waiting" hint="Jobs on all queues." times={times} format={count} least={4}
          series={[{ name: "jobs", values: of(({ queued }) => queued), colour: FIRST, isFilled: true }]}
        />
        <TimeChart
          title="Levels" hint="Which levels images were made at, the best at the bottom." times={times} format={percent} isStacked most={1} least={1}
          series={byLevel(periods, palette)}
        />
        <TimeChart
          title="Quality and saturation" hint="Of scored images; of demand that finds no room." times={times} format={percent} least={1} most={1}
          series={[
            { name: "quality", values: of(({ quality }) => quality === null ? null : Math.min(1, quality)), colour: FIRST },
            { name: "saturation", values: of(({ saturation }) => saturation), colour: SECOND },
          ]}
        />
        <TimeChart
          title="Utilisation" hint="Workers that compute, and slots of their batches that are taken." times={times} format={percent} least={1} most={1}
          series={[
            { name: "workers", values: of((each) => share(each.busy, workers(each))), colour: FIRST, isFilled: true },
            { name: "slots", values: of((each) => share(each.running, each.slots)), colour: SECOND },
          ]}
        />
      </div>
    </section>
  );
}

function byLevel(periods: readonly Period[], palette: Palette) {
  const made = new Set(periods.flatMap(({ images }) => Object.keys(images)));
  return [...palette].filter(([level]) => made.has(level)).map(([level, colour]) => ({
    name: level,
    colour,
    values: periods.map(({ images }) => share(images[level] ?? 0, Object.values(images).reduce((a, b) => a + b, 0))),
  }));
}

function workers(period: Period): number {
  return Object.values(period.devices).reduce((sum, each) => sum + each, 0);
}

function share(part: number, whole: number): number | null {
  return whole ? part / whole : null;
}
