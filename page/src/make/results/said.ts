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

type Image = Job["images"][number];

/** What made an image, by name. */
export function factsOf(job: Job, image: Image): [string, string][] {
  const facts: [string, string | null][] = [
    ["Level", job.placement.level],
    ["Size", `${image.width} × ${image.height}`],
    ["Seed", String(image.seed)],
    ["Steps", String(job.steps)],
    ["Guidance", String(job.guidance)],
    ["Sampler", job.scheduler],
    ["Strength", job.strength === null ? null : String(job.strength)],
    ["Negative", job.negative_prompt],
    ["LoRAs", job.loras.map(({ id, scale }) => `${id.slice(0, 8)} × ${scale}`).join(", ") || null],
    ["ControlNets", job.controls.map(({ id, scale }) => `${id.slice(0, 12)} × ${scale}`).join(", ") || null],
    ["Time", timeOf(job.timing)],
    ["Made", new Date((job.finished_at ?? job.created_at) * 1000).toLocaleString()],
  ];
  return facts.filter((each): each is [string, string] => each[1] !== null);
}

function timeOf({ total_s, queue_s }: Job["timing"]): string {
  const waited = queue_s < 0.05 ? "" : `, ${queue_s.toFixed(1)} s of them waiting`;
  return `${total_s.toFixed(1)} s${waited}`;
}

/** Seed and settings of an image as JSON, as `POST /v1/jobs` takes them. */
export function settingsOf(job: Job, image: Image): string {
  const { prompt, negative_prompt, model, width, height, steps, guidance, scheduler, quality } = job;
  const said = { prompt, negative_prompt, model, width, height, steps, guidance, scheduler, quality, seed: image.seed };
  const loras = job.loras.map(({ id, scale }) => ({ id, scale }));
  const known = Object.entries(said).filter(([, value]) => value !== null);
  return JSON.stringify({ ...Object.fromEntries(known), ...(loras.length && { loras }) }, null, 2);
}
