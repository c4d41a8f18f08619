/** The person's jobs, newest first: those that are made are followed, those that ended are read page by page. */
import { batch, signal, type Signal } from "@preact/signals";
import { api, body, type Job } from "../../api/client";
import { follow, type Progress } from "../../api/events";
import { key, notedKey } from "../../api/key";
import { Problem, sentence } from "../../api/problem";

/** A job as it is shown. */
export interface Shown {
  job: Job;
  /** How far it has come, and pictures on the way; null: nothing was heard. */
  progress: Progress | null;
}

const PAGE = 24;
/** Streams at a time: browsers open six connections to a host for all tabs together, and requests need some. */
const STREAMS = 2;
const POLL_MS = 2000;
/** Before a job is followed again whose stream was refused: the key may not, or there were too many. */
const REFUSED_MS = 10_000;

/** Between two looks at the URLs of an image that is looked at, and how long those work after each. */
export const RENEW_MS = 60_000;
const SPARE_MS = 1.5 * RENEW_MS;

/** Ids of jobs, newest first. */
export const order = signal<readonly string[]>([]);
/** Where the next page of ended jobs begins; null: all are here; undefined: none was read. */
export const cursor = signal<string | null | undefined>(undefined);
export const isReading = signal(false);
/** Why the list is not whole; null: it is. */
export const listFault = signal<string | null>(null);

const shown = new Map<string, Signal<Shown>>();
const streams = new Map<string, AbortController>();

export function hasEnded(job: Job): boolean {
  return job.status !== "queued" && job.status !== "running";
}

/** The job of an id that `order` holds. */
export function jobOf(id: string): Signal<Shown> {
  return shown.get(id)!;
}

/** Put a job where it belongs, or show what became of it. */
export function put(job: Job): void {
  const known = shown.get(job.id);
  if (known) {
    if (!hasEnded(known.value.job) || hasEnded(job)) known.value = { ...known.value, job };
  } else {
    shown.set(job.id, signal({ job, progress: null }));
    const at = order.value.findIndex((id) => jobOf(id).value.job.created_at < job.created_at);
    order.value = at < 0 ? [...order.value, job.id] : order.value.toSpliced(at, 0, job.id);
  }
  followSome();
}

/** Show what became of a job, unless it was deleted, or shown with another key. */
function update(job: Job): void {
  if (shown.has(job.id)) put(job);
}

/** Read what is newest, and all jobs that have not ended. */
export const readNewest = () =>
  reading(async () => {
    const [page, open] = await Promise.all([readPage(), readOpen()]);
    return () => {
      batch(() => [...page.data, ...open].forEach(put));
      if (cursor.value === undefined) cursor.value = page.cursor;
    };
  });

/** Read the next page. */
export const readMore = () =>
  reading(async () => {
    const page = await readPage(cursor.value);
    return () => {
      batch(() => page.data.forEach(put));
      cursor.value = page.cursor;
    };
  });

function readPage(from?: string | null) {
  const query = { limit: PAGE, ...(from && { cursor: from }) };
  return body(api.GET("/v1/jobs", { params: { query } }));
}

/** Read, and show what was read, unless it was asked for with another key than there is now. */
async function reading(read: () => Promise<() => void>): Promise<void> {
  if (isReading.value) return;
  isReading.value = true;
  const isSameKey = notedKey();
  try {
    const show = await read();
    if (!isSameKey()) return;
    show();
    listFault.value = null;
  } catch (error) {
    if (isSameKey()) listFault.value = sentence(error);
  } finally {
    if (isSameKey()) isReading.value = false;
  }
}

async function readOpen(): Promise<Job[]> {
  const ask = (status: "queued" | "running") =>
    body(api.GET("/v1/jobs", { params: { query: { status, limit: 100 } } }));
  const pages = await Promise.all([ask("queued"), ask("running")]);
  return pages.flatMap((page) => page.data);
}

/** Read a job again: its images get new URLs. */
export async function reread(id: string): Promise<void> {
  try {
    update(await body(api.GET("/v1/jobs/{job_id}", { params: { path: { job_id: id } } })));
  } catch (error) {
    if (error instanceof Problem && error.status === 404) drop(id);
  }
}

/** Read a job again if the URLs of its images are about to stop working. */
export async function renew(id: string): Promise<void> {
  const { images } = jobOf(id).value.job;
  const until = Math.min(...images.map((image) => 1000 * image.expires_at));
  if (until < Date.now() + SPARE_MS) await reread(id);
}

/** Stop a job; raises `Problem`. */
export async function cancel(id: string): Promise<void> {
  update(await body(api.POST("/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } })));
}

/** Delete a job with its images; raises `Problem`. */
export async function remove(id: string): Promise<void> {
  await api.DELETE("/v1/jobs/{job_id}", { params: { path: { job_id: id } } });
  drop(id);
}

/** Stop following all jobs: the view is left, or hidden. */
export function rest(): void {
  streams.forEach((stream) => stream.abort());
  streams.clear();
}

/** Another key may be another tenant's: nothing of the last is kept. */
key.subscribe(() => {
  rest();
  shown.clear();
  batch(() => {
    order.value = [];
    cursor.value = undefined;
    isReading.value = false;
    listFault.value = null;
  });
});

function drop(id: string): void {
  streams.get(id)?.abort();
  streams.delete(id);
  order.value = order.value.filter((each) => each !== id);
  shown.delete(id);
}

/** Follow the jobs that are made next; a hidden tab leaves the connections to others. */
export function followSome(): void {
  if (document.hidden) return;
  const open = order.value.filter((id) => !hasEnded(jobOf(id).value.job));
  for (const id of open.reverse()) {
    if (streams.size >= STREAMS) return;
    if (!streams.has(id)) void followOne(id);
  }
}

async function followOne(id: string): Promise<void> {
  const stream = new AbortController();
  streams.set(id, stream);
  const change = (fields: (now: Shown) => Partial<Shown>) => {
    const job = shown.get(id);
    if (job) job.value = { ...job.value, ...fields(job.value) };
  };
  const listener = {
    onStatus: (status: Job["status"]) => change(({ job }) => (hasEnded(job) ? {} : { job: { ...job, status } })),
    onProgress: (progress: Progress) => change((now) => ({ progress: onward(now.progress, progress) })),
    onDone: update,
  };
  try {
    await follow(id, listener, stream.signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) drop(id);
    else await new Promise((wake) => setTimeout(wake, REFUSED_MS));
  }
  if (streams.get(id) !== stream) return; // the view was left or hidden
  if (shown.has(id) && !hasEnded(jobOf(id).value.job)) await reread(id);
  streams.delete(id);
  followSome();
}

/** Pictures stay until newer ones come. */
function onward(before: Progress | null, now: Progress): Progress {
  return { ...now, previews: now.previews.size || !before ? now.previews : before.previews };
}

/** Ask again and again for jobs that tell nothing by themselves, and follow some while the tab is seen; returns how to stop. */
export function watchWaiting(): () => void {
  const timer = setInterval(() => {
    const open = order.value.filter((id) => !hasEnded(jobOf(id).value.job));
    const silent = open.filter((id) => jobOf(id).value.job.status === "queued" || !streams.has(id));
    silent.slice(-STREAMS).forEach((id) => void reread(id));
  }, POLL_MS);
  const look = () => (document.hidden ? rest() : followSome());
  document.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
  };
}
