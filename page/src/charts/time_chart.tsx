/** A chart over time: lines, or areas on each other; what the pointer is at stands in the legend. */
import { useId, useState } from "preact/hooks";
import { clock } from "../format/time";
import { Legend } from "./legend";
import { marksUpTo, minutesBetween, nearest } from "./scale";
import { largest, runs, stacked, type Series } from "./series";
import { SeriesTable } from "./series_table";
import { useWidth } from "./use_width";

const HEIGHT = 168;
const LEFT = 46;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;
/** Seconds of time that are shown at least. */
const SHORTEST_S = 600;

interface Props {
  title: string;
  /** What it says, for who cannot see it and for who wonders. */
  hint: string;
  times: readonly number[];
  series: readonly Series[];
  /** Writes a value with its unit. */
  format: (value: number) => string;
  isStacked?: boolean;
  /** Where the axis ends at least. */
  least?: number;
  /** Where it ends at most. */
  most?: number;
}

export function TimeChart({ title, hint, times, series, format, isStacked = false, least = 0, most }: Props) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const [pointed, setPointed] = useState<number | null>(null);
  const id = useId();
  const shown = pointed === null ? times.length - 1 : Math.min(pointed, times.length - 1);

  const layers = isStacked ? stacked(series) : null;
  const highest = layers ? Math.max(0, ...(layers.at(-1)?.high ?? [])) : largest(series);
  const marks = marksUpTo(Math.min(Math.max(highest, least), most ?? Infinity));
  const to = times.at(-1) ?? 0;
  const from = Math.min(times[0] ?? 0, to - SHORTEST_S);
  const x = (at: number) => LEFT + ((at - from) / (to - from || 1)) * (width - LEFT - RIGHT);
  const y = (value: number) => HEIGHT - BOTTOM - (value / marks.at(-1)!) * (HEIGHT - BOTTOM - TOP);
  const line = (run: readonly number[], values: readonly (number | null)[]) =>
    run.map((i, k) => `${k ? "L" : "M"}${x(times[i]!).toFixed(1)} ${y(values[i]!).toFixed(1)}`).join("");
  const area = (run: readonly number[], high: readonly (number | null)[], low?: readonly number[]) =>
    `${line(run, high)}${line([...run].reverse(), low ?? times.map(() => 0)).replace("M", "L")}Z`;

  const follow = (event: PointerEvent) => {
    const left = (event.currentTarget as Element).getBoundingClientRect().left;
    const at = from + ((event.clientX - left - LEFT) / (width - LEFT - RIGHT)) * (to - from);
    setPointed(nearest(times, at));
  };

  return (
    <figure class="chart" aria-labelledby={id}>
      <figcaption>
        <h3 id={id}>{title}</h3>
        <p class="small quiet">{hint}</p>
      </figcaption>
      <Legend series={series} at={shown} when={pointed === null ? null : times[shown]} format={format} />
      <div ref={frame} class="plot" onPointerMove={follow} onPointerLeave={() => setPointed(null)}>
        {width > 0 && times.length > 0 && (
          <svg width={width} height={HEIGHT} aria-hidden="true">
            {marks.map((mark) => (
              <g key={mark}>
                <line class="rule" x1={LEFT} x2={width - RIGHT} y1={y(mark)} y2={y(mark)} />
                <text x={LEFT - 8} y={y(mark)} dy="0.32em" text-anchor="end">{format(mark)}</text>
              </g>
            ))}
            {minutesBetween(from, to, width / 90).map((at) => (
              <text key={at} x={x(at)} y={HEIGHT - 5} text-anchor="middle">{clock(at)}</text>
            ))}
            {layers
              ? layers.map(({ low, high }, i) => (
                  <g key={series[i]!.name} fill={series[i]!.colour} stroke={series[i]!.colour}>
                    {runs(series[i]!.values).map((run) => <path key={run[0]} d={area(run, high, low)} class={run.length === 1 ? "alone" : "area"} />)}
                  </g>
                ))
              : series.map(({ name, values, colour, isDashed, isFilled }) => (
                  <g key={name}>
                    {runs(values).map((run) => (
                      <g key={run[0]}>
                        {isFilled && <path d={area(run, values)} fill={colour} class="fill" />}
                        <path d={line(run, values)} stroke={colour} class={isDashed ? "line dashed" : "line"} />
                        {run.length === 1 && <circle cx={x(times[run[0]!]!)} cy={y(values[run[0]!]!)} r="2" fill={colour} />}
                      </g>
                    ))}
                  </g>
                ))}
            {pointed !== null && <line class="pointer" x1={x(times[shown]!)} x2={x(times[shown]!)} y1={TOP} y2={HEIGHT - BOTTOM} />}
          </svg>
        )}
      </div>
      <SeriesTable title={title} times={times} series={series} format={format} />
    </figure>
  );
}
