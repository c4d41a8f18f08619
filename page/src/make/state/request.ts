/** A request from what the form holds. Pure, but for uploads, which are given. */
import type { Schemas } from "../../api/client";
import type { Draft, Picture } from "./draft";

export type JobCreate = Schemas["JobCreate"];

/** Ids of pictures, by what they are in the request. */
export type Named = (kind: "templates" | "files", picture: Pick<Picture, "blob" | "name">) => string;

/** What of a draft is said by plain values: nothing that is left to the service. */
function plain(draft: Draft): Partial<JobCreate> {
  const { prompt, model, width, height, steps, guidance, seed, deadline_s, application, scheduler } = draft;
  const said = { model, width, height, steps, guidance, seed, deadline_s, application, scheduler };
  const given = Object.entries(said).filter(([, value]) => value !== null);
  return {
    prompt,
    ...(draft.negative_prompt && { negative_prompt: draft.negative_prompt }),
    ...(Object.fromEntries(given) as Partial<JobCreate>),
    ...(draft.n > 1 && { n: draft.n }),
    ...(draft.quality !== "auto" && { quality: draft.quality }),
  };
}

/** What the picture adds; an edit has the size of its template. */
function pictured(draft: Draft, named: Named): Partial<JobCreate> {
  const { picture, mask, strength } = draft;
  if (!picture) return {};
  const from = strength === null ? {} : { strength };
  if (draft.use === "start") return { image: named("files", picture), ...from };
  const template = named("templates", picture);
  const covered = mask && { mask: named("files", { blob: mask, name: "mask.png" }) };
  return { task: "edit", template, ...covered, ...from };
}

function controls(draft: Draft, named: Named): Partial<JobCreate> {
  const used = draft.controls.map(({ picture, mode, ...rest }) => ({
    ...rest,
    image: picture ? named("files", picture) : "",
    ...(mode !== null && { mode }),
  }));
  return used.length ? { controls: used as JobCreate["controls"] } : {};
}

/** Say a draft as a request, with a name for each of its pictures. */
export function requestOf(draft: Draft, named: Named): JobCreate {
  const body: Partial<JobCreate> = {
    ...plain(draft),
    ...pictured(draft, named),
    ...(draft.loras.length && { loras: draft.loras }),
    ...controls(draft, named),
  };
  if (body.task === "edit") delete body.width, delete body.height;
  return body as JobCreate;
}
