/** What a chart over time shows. */

export interface Series {
  name: string;
  /** One for each time; null: nothing is known then. */
  values: readonly (number | null)[];
  /** A colour, as CSS writes it. */
  colour: string;
  /** Dashed: what was expected, beside what was. */
  isDashed?: boolean;
  /** Filled down to the axis. */
  isFilled?: boolean;
}

/** Lay each series upon those before it; what is not known counts as nothing. */
export function stacked(series: readonly Series[]): { low: number[]; high: number[] }[] {
  const ground: number[] = series[0]?.values.map(() => 0) ?? [];
  return series.map(({ values }) => {
    const low = [...ground];
    values.forEach((value, i) => (ground[i] = ground[i]! + (value ?? 0)));
    return { low, high: [...ground] };
  });
}

/** The largest value of all. */
export function largest(series: readonly Series[]): number {
  return Math.max(0, ...series.flatMap(({ values }) => values.filter((value) => value !== null)));
}

/** The runs of neighbouring points that are known, as indices. */
export function runs(values: readonly (number | null)[]): number[][] {
  const found: number[][] = [];
  values.forEach((value, i) => {
    if (value === null) return;
    const last = found.at(-1);
    if (last && last.at(-1) === i - 1) last.push(i);
    else found.push([i]);
  });
  return found;
}
