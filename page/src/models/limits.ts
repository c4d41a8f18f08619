/** Limits of tenants as people read and write them. */
import type { Schemas } from "../api/client";
import { bytes, count } from "../format/number";

export type LimitName = keyof Schemas["LimitsView"];

export interface Limit {
  name: LimitName;
  title: string;
  hint: string;
  /** What is written is so many of what is sent. */
  unit: number;
}

const GIB = 2 ** 30;

export const LIMITS: readonly Limit[] = [
  { name: "jobs_per_s", title: "Jobs a second", hint: "Accepted, in the long run.", unit: 1 },
  { name: "burst", title: "At once", hint: "Jobs that may come together.", unit: 1 },
  { name: "open_jobs", title: "Open jobs", hint: "That have not ended.", unit: 1 },
  { name: "images_a_day", title: "Images a day", hint: "Asked for on one day of UTC.", unit: 1 },
  { name: "kept_bytes", title: "Kept", hint: "GiB of images and uploads.", unit: GIB },
];

/** Write a limit; where there is none, say so. */
export function written({ unit }: Limit, value: number | null): string {
  if (value === null) return "no limit";
  if (unit === GIB) return bytes(value);
  return value < 10 ? String(value) : count(value);
}
