/** What the form holds: the next request, as far as it is said. */
import { effect, signal } from "@preact/signals";
import { FORM_STORED_AS, key } from "../../api/key";

/** A picture of the person's, not sent yet. */
export interface Picture {
  blob: Blob;
  name: string;
  width: number;
  height: number;
}

export interface LoraUse {
  id: string;
  scale: number;
}

export interface ControlUse {
  id: string;
  picture: Picture | null;
  scale: number;
  start: number;
  end: number;
  mode: number | null;
}

/** Fields that are null are left to the service. */
export interface Draft {
  prompt: string;
  negative_prompt: string;
  model: string | null;
  width: number | null;
  height: number | null;
  steps: number | null;
  guidance: number | null;
  seed: number | null;
  n: number;
  quality: "auto" | "exact";
  deadline_s: number | null;
  application: string | null;
  scheduler: string | null;
  /** What a picture is for: a part of it made anew, or all of it started from. */
  use: "edit" | "start";
  picture: Picture | null;
  /** White where the picture is made anew; of its size. */
  mask: Blob | null;
  strength: number | null;
  loras: LoraUse[];
  controls: ControlUse[];
}

export const EMPTY: Draft = {
  prompt: "",
  negative_prompt: "",
  model: null,
  width: null,
  height: null,
  steps: null,
  guidance: null,
  seed: null,
  n: 1,
  quality: "auto",
  deadline_s: null,
  application: null,
  scheduler: null,
  use: "edit",
  picture: null,
  mask: null,
  strength: null,
  loras: [],
  controls: [],
};

/** Pictures are not stored: they are large, and gone with the tab. */
function restored(): Draft {
  const stored = sessionStorage.getItem(FORM_STORED_AS);
  return stored ? { ...EMPTY, ...(JSON.parse(stored) as Partial<Draft>) } : EMPTY;
}

export const draft = signal<Draft>(restored());

effect(() => {
  const { picture: _picture, mask: _mask, controls: _controls, ...words } = draft.value;
  sessionStorage.setItem(FORM_STORED_AS, JSON.stringify(words));
});

/** What the service said of each field, by its path in the request. */
export const faults = signal<ReadonlyMap<string, string>>(new Map());

let keyBefore = key.value;

/** The form goes with a key that is forgotten; where one is refused, it waits for the next. */
key.subscribe((now) => {
  if (keyBefore && !now) {
    draft.value = EMPTY;
    faults.value = new Map();
  }
  keyBefore = now;
});

/** What the picture is called in a request, by what it is for. */
const PICTURE = ["template", "image", "mask"];

/** Change some fields; what was wrong with them is forgotten. */
export function change(fields: Partial<Draft>): void {
  draft.value = { ...draft.value, ...fields };
  const changed = new Set([...Object.keys(fields), ...("picture" in fields || "use" in fields ? PICTURE : [])]);
  const left = [...faults.value].filter(([path]) => !changed.has(path.split(".")[0]!));
  if (left.length < faults.value.size) faults.value = new Map(left);
}
