/** Sums over the periods of the last hour. */
import type { Schemas } from "../api/client";

export type Period = Schemas["PeriodView"];
type Counted = "accepted" | "succeeded" | "failed" | "canceled" | "late" | "redelivered" | "buried" | "scored";

/** Periods that say what happens now: about a minute. */
const LATELY = 2;

/** Add up what was counted. */
export function total(periods: readonly Period[], name: Counted): number {
  return periods.reduce((sum, period) => sum + period[name], 0);
}

/** How much came a second. */
export function perSecond(period: Period, name: Counted): number | null {
  return period.seconds > 0 ? period[name] / period.seconds : null;
}

/** The same of about the last minute; null: nothing is known. */
export function lately(periods: readonly Period[], name: Counted): number | null {
  const last = periods.slice(-LATELY);
  const seconds = last.reduce((sum, period) => sum + period.seconds, 0);
  return seconds > 0 ? total(last, name) / seconds : null;
}

/** The last value that is known, if it is not too old. */
export function latest(periods: readonly Period[], name: "p50_s" | "p95_s"): number | null {
  return periods.slice(-2 * LATELY).map((period) => period[name]).findLast((value) => value !== null) ?? null;
}

/** The mean quality of all images that were scored. */
export function quality(periods: readonly Period[]): number | null {
  const scored = total(periods, "scored");
  return scored ? periods.reduce((sum, { quality, scored }) => sum + (quality ?? 0) * scored, 0) / scored : null;
}

/** Seconds that devices were there, busy or not. */
export function deviceSeconds(periods: readonly Period[]): number {
  return periods.reduce((sum, { devices, seconds }) => sum + seconds * Object.values(devices).reduce((a, b) => a + b, 0), 0);
}

/** What they cost; null: nobody has said what one of them costs. */
export function cost(periods: readonly Period[]): number | null {
  return periods.reduce<number | null>((sum, { cost }) => (sum === null || cost === null ? null : sum + cost), periods.length ? 0 : null);
}
