/** Numbers as people read them. */

const WHOLE = new Intl.NumberFormat("en");

/** Write a count: 12,345. */
export function count(value: number): string {
  return WHOLE.format(Math.round(value));
}

/** Write a share as a percentage; what is not nothing is not written as such. */
export function percent(value: number): string {
  const hundredths = value * 100;
  if (hundredths > 0 && hundredths < 0.1) return "<0.1 %";
  return `${+hundredths.toFixed(hundredths < 10 ? 1 : 0)} %`;
}

/** Write what happens a second. */
export function rate(value: number): string {
  return `${+value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0)}/s`;
}

/** Write an amount of money, in the currency of the operator's prices. */
export function price(value: number): string {
  return value === 0 || value >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
}

/** Write bytes in binary units. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${+value.toFixed(value < 10 && at > 0 ? 1 : 0)} ${units[at]}`;
}

/** Write gibibytes. */
export function gib(value: number): string {
  return bytes(value * 2 ** 30);
}
