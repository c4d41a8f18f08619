/** Where values lie on an axis, and which of them are marked. */

/** Choose about `count` round marks from 0 to at least `most`; the last one is the top of the axis. */
export function marksUpTo(most: number, count = 3): number[] {
  if (!(most > 0)) return [0, 1];
  const step = roundUp(most / count);
  const top = Math.ceil(most / step - 1e-9);
  return Array.from({ length: top + 1 }, (_, i) => i * step);
}

/** Round up to 1, 2, 2.5 or 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 2.5, 5, 10].find((each) => each * power >= value * (1 - 1e-9))!;
  return factor * power;
}

const MINUTE_S = 60;

/** Choose whole minutes between two moments (epoch s), at most `count` of them. */
export function minutesBetween(from: number, to: number, count: number): number[] {
  const every = [1, 2, 5, 10, 15, 20, 30].find((each) => (to - from) / (each * MINUTE_S) <= count) ?? 60;
  const first = Math.ceil(from / (every * MINUTE_S)) * every * MINUTE_S;
  const marks = [];
  for (let at = first; at <= to; at += every * MINUTE_S) marks.push(at);
  return marks;
}

/** Find the point whose time is nearest. */
export function nearest(times: readonly number[], at: number): number {
  let best = 0;
  for (let i = 1; i < times.length; i++) {
    if (Math.abs(times[i]! - at) < Math.abs(times[best]! - at)) best = i;
  }
  return best;
}
