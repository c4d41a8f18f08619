/** Put into the form what a job was asked for with. */
import type { Job } from "../../api/client";
import { localUrl } from "../../api/local_url";
import { change, EMPTY, type ControlUse, type Draft } from "./draft";
import { fetched, read, use } from "./pictures";

/** Ask for the like of it: its words, settings, adapters and pictures, and a seed if one is given. */
export async function remix(job: Job, seed: number | null): Promise<void> {
  change({ ...settings(job), seed, ...(await pictures(job)), controls: await controls(job) });
}

/** Start from an image that was made. */
export async function startFrom(job: Job, url: string): Promise<void> {
  await use(await fetched(localUrl(url, job)), `${job.id}.png`);
}

function settings(job: Job): Partial<Draft> {
  const { prompt, model, width, height, steps, guidance, n, quality, application, scheduler } = job;
  const said = { prompt, model, width, height, steps, guidance, n, quality, application, scheduler };
  return { ...EMPTY, ...said, negative_prompt: job.negative_prompt ?? "", loras: job.loras.map(({ id, scale }) => ({ id, scale })) };
}

async function pictures(job: Job): Promise<Partial<Draft>> {
  const url = job.template ?? job.image;
  if (!url || job.task === "upscale") return {};
  const picture = await read(await fetched(localUrl(url, job)), "picture.png");
  const mask = job.mask ? await fetched(localUrl(job.mask, job)) : null;
  return { picture, mask, use: job.template ? "edit" : "start", strength: job.strength };
}

function controls(job: Job): Promise<ControlUse[]> {
  return Promise.all(
    job.controls.map(async ({ id, image, scale, start, end, mode }) => {
      const picture = await read(await fetched(localUrl(image, job)), "control.png");
      return { id, picture, scale, start, end, mode };
    }),
  );
}
