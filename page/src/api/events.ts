/** Follow one job by Server-Sent Events; `EventSource` cannot send a key, so the stream is read here. */
import { BASE, send, type Job } from "./client";
import { Problem } from "./problem";

/** What a job says while it is made. */
export interface Progress {
  step: number;
  steps: number;
  /** Pictures of the images on their way, by index, as `data:` URLs. */
  previews: ReadonlyMap<number, string>;
}

export interface Listener {
  onStatus(status: Job["status"]): void;
  onProgress(progress: Progress): void;
  onDone(job: Job): void;
}

const RETRY_MS = 1000;

/** Read a job's events until it has ended, over as many connections as it takes; raises `Problem` once it is gone. */
export async function follow(id: string, listener: Listener, signal: AbortSignal): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = last ? { "Last-Event-ID": last } : {};
      const asked = new Request(`${BASE}/v1/jobs/${id}/events?previews=true`, { headers, signal });
      const response = await send(asked);
      if (response.status === 204 || !response.body) return; // it ended, and all of it was told
      for await (const event of events(response.body)) {
        if (event.id) last = event.id;
        if (tell(listener, event)) return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500) throw error;
    }
    await new Promise((wake) => setTimeout(wake, RETRY_MS));
  }
}

/** Pass an event on; tell whether it was the last. */
function tell(listener: Listener, event: Event): boolean {
  if (event.name === "status") listener.onStatus(JSON.parse(event.data).status);
  if (event.name === "progress") listener.onProgress(progressOf(JSON.parse(event.data)));
  if (event.name === "done") listener.onDone(JSON.parse(event.data));
  return event.name === "done";
}

interface Told {
  step?: number;
  steps?: number;
  preview?: string;
  previews?: Record<string, string>;
}

function progressOf(told: Told): Progress {
  const shown = told.previews ?? (told.preview ? { "0": told.preview } : {});
  const previews = Object.entries(shown).map(([at, data]) => [Number(at), `data:image/jpeg;base64,${data}`] as const);
  return { step: told.step ?? 0, steps: told.steps ?? 1, previews: new Map(previews) };
}

interface Event {
  id: string;
  name: string;
  data: string;
}

/** Cut a stream into its events. */
async function* events(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Event> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text = (text + value).replaceAll("\r\n", "\n");
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        yield parse(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    await reader.cancel();
  }
}

function parse(block: string): Event {
  const event: Event = { id: "", name: "message", data: "" };
  for (const line of block.split("\n")) {
    const [field, value] = [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trimStart()];
    if (field === "id") event.id = value;
    if (field === "event") event.name = value;
    if (field === "data") event.data += value;
  }
  return event;
}
