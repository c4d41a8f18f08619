/** Times and durations as people read them. */

const HOUR_MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const WITH_SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Write the time of day of a moment (epoch s). */
export function clock(at: number, { withSeconds = false } = {}): string {
  return (withSeconds ? WITH_SECONDS : HOUR_MINUTE).format(at * 1000);
}

/** Write a moment (epoch s) with its day. */
export function day(at: number): string {
  return DAY.format(at * 1000);
}

/** Write seconds: 0.25 s, 4.1 s, 138 s, 12 min, 3.5 h. */
export function seconds(value: number): string {
  if (value === 0) return "0 s";
  if (value < 0.01) return `${(value * 1000).toPrecision(2)} ms`;
  if (value < 1) return `${+value.toFixed(2)} s`;
  if (value < 10) return `${+value.toFixed(1)} s`;
  if (value < 180) return `${Math.round(value)} s`;
  if (value < 6000) return `${Math.round(value / 60)} min`;
  if (value < 172_800) return `${+(value / 3600).toFixed(1)} h`;
  return `${Math.round(value / 86_400)} days`;
}
