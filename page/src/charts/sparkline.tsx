/** A line without axes, as wide as its place: which way something goes. */
import { largest, runs } from "./series";

const WIDTH = 120;
const HEIGHT = 28;

export function Sparkline({ values, colour }: { values: readonly (number | null)[]; colour: string }) {
  const top = largest([{ name: "", values, colour }]) || 1;
  const x = (i: number) => (i / Math.max(1, values.length - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 1.5 - (value / top) * (HEIGHT - 3);
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {runs(values).map((run) => (
        <path key={run[0]} d={run.map((i, k) => `${k ? "L" : "M"}${x(i).toFixed(1)} ${y(values[i]!).toFixed(1)}`).join("")} stroke={colour} />
      ))}
    </svg>
  );
}
