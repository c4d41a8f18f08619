/** The same series as a table, the newest row first: for screen readers, and to copy. */
import { clock } from "../format/time";
import { useState } from "preact/hooks";
import type { Series } from "./series";

interface Props {
  title: string;
  times: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
}

export function SeriesTable({ title, times, series, format }: Props) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary>As a table<span class="only-heard">: {title}</span></summary>
      {isOpen && (
        <div class="scrolled" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
          <table>
            <thead>
              <tr><th scope="col">Time</th>{series.map(({ name }) => <th key={name} scope="col" class="num">{name}</th>)}</tr>
            </thead>
            <tbody>
              {times.map((at, i) => (
                <tr key={at}>
                  <th scope="row">{clock(at, { withSeconds: true })}</th>
                  {series.map(({ name, values }) => <td key={name} class="num">{values[i] == null ? "–" : format(values[i])}</td>)}
                </tr>
              )).reverse()}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
