/** Send the draft: its pictures first, each once, then the job. */
import { signal } from "@preact/signals";
import { api, body, upload, type Job, type Schemas } from "../../api/client";
import { key, notedKey } from "../../api/key";
import { Problem, sentence } from "../../api/problem";
import { draft, faults, type Draft, type Picture } from "./draft";
import { put } from "./jobs";
import { requestOf } from "./request";

/** What is wrong with the request as a whole; null: nothing. */
export const sendFault = signal<string | null>(null);
/** Requests on their way. */
export const sending = signal(0);

type Kind = "templates" | "files";

/** Ids of what was uploaded in this tab with this key. */
let uploaded = nothing();

function nothing() {
  return { templates: new WeakMap<Blob, Promise<string>>(), files: new WeakMap<Blob, Promise<string>>() };
}

/** Another key may be another tenant's, who has none of it. */
key.subscribe(() => {
  uploaded = nothing();
  sendFault.value = null;
});

/** Upload a picture, unless that was done. */
function idOf(kind: Kind, blob: Blob): Promise<string> {
  const ids = uploaded[kind];
  const known = ids.get(blob);
  if (known) return known;
  const id = upload<Schemas["UploadView"]>(`/v1/${kind}`, blob).then((kept) => kept.id);
  ids.set(blob, id);
  id.catch(() => ids.delete(blob));
  return id;
}

/** Upload all pictures of a draft; what is wrong with one is said at its field. */
async function uploadAll(said: Draft): Promise<Map<Blob, string>> {
  const wanted: [Kind, string, Blob][] = [];
  if (said.picture) wanted.push(said.use === "edit" ? ["templates", "template", said.picture.blob] : ["files", "image", said.picture.blob]);
  if (said.picture && said.use === "edit" && said.mask) wanted.push(["files", "mask", said.mask]);
  said.controls.forEach(({ picture }, at) => picture && wanted.push(["files", `controls.${at}.image`, picture.blob]));
  const ids = wanted.map(async ([kind, field, blob]) => {
    try {
      return [blob, await idOf(kind, blob)] as const;
    } catch (error) {
      if (error instanceof Problem && error.status === 422) {
        const detail = error.fields.get("body") ?? error.message;
        throw new Problem(422, { detail: error.message, errors: [{ field, detail }] });
      }
      throw error;
    }
  });
  return new Map(await Promise.all(ids));
}

/** Send what the form holds, and follow the job; null: it was refused, and `faults` say why. */
export async function submit(): Promise<Job | null> {
  const said = draft.value;
  const isSameKey = notedKey();
  faults.value = new Map();
  sendFault.value = null;
  sending.value += 1;
  try {
    const ids = await uploadAll(said);
    if (!isSameKey()) return null; // whose key it is now did not say this
    const named = (_kind: Kind, { blob }: Pick<Picture, "blob">) => ids.get(blob)!;
    const job = await body(api.POST("/v1/jobs", { body: requestOf(said, named) }));
    if (isSameKey()) put(job);
    return job;
  } catch (error) {
    if (!isSameKey()) return null;
    faults.value = error instanceof Problem ? error.fields : new Map();
    sendFault.value = faults.value.size ? null : sentence(error);
    return null;
  } finally {
    sending.value -= 1;
  }
}
