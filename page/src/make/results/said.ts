/** How a job is put into words. Pure. */
import type { Job } from "../../api/client";
import type { Progress } from "../../api/events";

/** Where it stands, in a few words. */
export function stateOf(job: Job, progress: Progress | null): string {
  const soon = job.eta_s === null ? "" : `, about ${Math.max(1, Math.ceil(job.eta_s))} s to go`;
  switch (job.status) {
    case "queued":
      return job.queue_position ? `Waiting, ${job.queue_position} before it${soon}` : `Waiting${soon}`;
    case "running":
      return progress ? `Step ${progress.step} of ${progress.steps}` : "Starting";
    case "succeeded":
      return `${job.placement.level}, ${job.timing.total_s.toFixed(1)} s`;
    case "failed":
      return job.error ? `Failed: ${job.error.title}` : "Failed";
    case "canceled":
      return "Canceled";
    case "expired":
      return "Its deadline passed before it was made";
  }
}
