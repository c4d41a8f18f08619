/** Names of series, each with its colour and its value at one moment. */
import { clock } from "../format/time";
import type { Series } from "./series";

interface Props {
  series: readonly Series[];
  /** Index of the moment. */
  at: number;
  /** The moment, if it is not the last one (epoch s). */
  when: number | null | undefined;
  format: (value: number) => string;
}

export function Legend({ series, at, when, format }: Props) {
  return (
    <ul class="legend">
      {series.map(({ name, values, colour, isDashed }) => {
        const value = values[at];
        return (
          <li key={name}>
            <span class={isDashed ? "key dashed" : "key"} style={{ "--colour": colour }} />
            {name} <b class="num">{value === null || value === undefined ? "–" : format(value)}</b>
          </li>
        );
      })}
      {when != null && <li class="when num">{clock(when)}</li>}
    </ul>
  );
}
