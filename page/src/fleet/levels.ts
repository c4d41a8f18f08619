/** Levels from the best to the fastest, and their colours. */
import type { Schemas } from "../api/client";

type Model = Schemas["ModelView"];

/** The model of a level: what stands before its `@`. */
export function modelOf(level: string): string {
  return level.slice(0, level.lastIndexOf("@"));
}

/** Sort levels: by the quality of their models, then by what is left out. */
function ordered(levels: Iterable<string>, models: readonly Model[]): string[] {
  const worth = new Map(models.map((model) => [model.id, model.quality ?? 0]));
  const left = (level: string) => Number.parseFloat(level.slice(level.lastIndexOf("@") + 1)) || 0;
  return [...new Set(levels)].sort(
    (a, b) =>
      (worth.get(modelOf(b)) ?? 0) - (worth.get(modelOf(a)) ?? 0) ||
      modelOf(a).localeCompare(modelOf(b)) ||
      left(a) - left(b),
  );
}

/** Levels from the best to the fastest, each with its colour, from dark to light. */
export type Palette = ReadonlyMap<string, string>;

/** Choose the colours of all levels that a view shows, so that each has the same everywhere. */
export function paletteOf(levels: Iterable<string>, models: readonly Model[]): Palette {
  const all = ordered(levels, models);
  const last = Math.max(1, all.length - 1);
  return new Map(all.map((level, i) => [level, mixed(i / last)]));
}

function mixed(part: number): string {
  const [from, to, share] = part < 0.5 ? ["--best", "--middle", 2 * part] : ["--middle", "--fastest", 2 * part - 1];
  return `color-mix(in oklab, var(${from}), var(${to}) ${Math.round(share * 100)}%)`;
}
