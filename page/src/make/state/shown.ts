/** Which image is looked at, and which two are compared. */
import { computed, signal } from "@preact/signals";
import type { Job } from "../../api/client";
import { jobOf, order } from "./jobs";

/** One image of a job, by its place. */
export interface Ref {
  id: string;
  at: number;
}

export const opened = signal<Ref | null>(null);
/** The first of two, while the other is chosen. */
export const comparing = signal<Ref | null>(null);
export const compared = signal<readonly [Ref, Ref] | null>(null);

/** All images that are here, newest job first. */
const all = computed<Ref[]>(() =>
  order.value.flatMap((id) => jobOf(id).value.job.images.map((_, at) => ({ id, at }))),
);

/** Look at an image, or take it as the second of two. */
export function pick(chosen: Ref): void {
  const first = comparing.value;
  if (!first) return void (opened.value = chosen);
  comparing.value = null;
  compared.value = [first, chosen];
}

/** The image before or after the one that is looked at; null: there is none. */
export function beside(by: 1 | -1): Ref | null {
  const here = all.value.findIndex((each) => each.id === opened.value?.id && each.at === opened.value.at);
  return here < 0 ? null : (all.value[here + by] ?? null);
}

/** The job and the image of a reference; null: it was deleted. */
export function found(ref: Ref | null): { job: Job; image: Job["images"][number] } | null {
  if (!ref || !order.value.includes(ref.id)) return null;
  const job = jobOf(ref.id).value.job;
  const image = job.images[ref.at];
  return image ? { job, image } : null;
}
