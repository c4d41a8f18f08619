/** The rows of a plan as a picture shows them. */
import type { Schemas } from "../api/client";

/** A plan, but for what images cost. */
export type Plan = Omit<Schemas["PlanView"], "costs">;
type Pasm = Schemas["PasmView"];

/** Rows of one application that serve one kind of job. */
export interface Sheet {
  name: string;
  rows: readonly Pasm[];
}

/** One class of prompts. */
export interface ClassRow {
  name: string;
  /** Its share of the prompts; all rows add up to 1. */
  weight: number;
  shares: Readonly<Record<string, number>>;
}

/** Classes whose prompts keep their quality down to the same level. */
export interface ClassGroup {
  level: string;
  weight: number;
  rows: ClassRow[];
}

/** The fastest level that keeps the quality of a class of prompts, which gives it its name. */
export function affinityOf(className: string): string {
  return className.replace(/\/\d+$/, "");
}

/** Name every level that a plan knows of. */
export function levelsOf({ levels, pasm }: Plan): string[] {
  return [...Object.keys(levels), ...pasm.flatMap(({ shares, affinity }) => [...Object.keys(shares), affinityOf(affinity)])];
}

/** Divide the rows of a plan by application and kind of job. */
export function sheets(plan: Plan): Sheet[] {
  const found = new Map<string, Pasm[]>();
  for (const row of plan.pasm) {
    const name = `${row.application}${madeBy(row.models)}${row.is_full ? ", from noise alone" : ""}`;
    found.set(name, [...(found.get(name) ?? []), row]);
  }
  const choices = (sheet: Sheet) => sheet.rows[0]!.models.length || Infinity;
  return [...found].map(([name, rows]) => ({ name, rows })).sort((a, b) => choices(b) - choices(a) || 0);
}

function madeBy(models: readonly string[]): string {
  if (!models.length) return "";
  return models.length > 2 ? `, by any of ${models.length} models` : `, by ${models.join(" or ")}`;
}

/** Whether the plan knows how prompts are shared among classes: otherwise each counts alike. */
export function isWeighed(sheet: Sheet, plan: Plan): boolean {
  return sheet.rows.some(({ affinity }) => (plan.affinity[affinity] ?? 0) > 0);
}

/** Put the classes of a sheet together by the fastest level that keeps their quality. */
export function groups(sheet: Sheet, plan: Plan, order: readonly string[]): ClassGroup[] {
  const isKnown = isWeighed(sheet, plan);
  const weigh = (row: Pasm) => (isKnown ? (plan.affinity[row.affinity] ?? 0) : 1);
  const whole = sheet.rows.reduce((sum, row) => sum + weigh(row), 0) || 1;
  const found = new Map<string, ClassGroup>();
  for (const row of sheet.rows) {
    const level = affinityOf(row.affinity);
    const group = found.get(level) ?? { level, weight: 0, rows: [] };
    const weight = weigh(row) / whole;
    group.weight += weight;
    if (weight > 0) group.rows.push({ name: row.affinity, weight, shares: row.shares });
    found.set(level, group);
  }
  for (const group of found.values()) group.rows.sort((a, b) => b.weight - a.weight);
  const rank = (group: ClassGroup) => (order.indexOf(group.level) + order.length + 1) % (order.length + 1);
  return [...found.values()].filter(({ rows }) => rows.length).sort((a, b) => rank(a) - rank(b));
}

/** Share of all prompts that goes to each level. */
export function totals(of: readonly ClassGroup[]): Map<string, number> {
  const sum = new Map<string, number>();
  for (const { weight, shares } of of.flatMap(({ rows }) => rows)) {
    for (const [level, share] of Object.entries(shares)) sum.set(level, (sum.get(level) ?? 0) + weight * share);
  }
  return sum;
}
