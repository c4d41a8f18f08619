/** What the service has to offer: models, applications, LoRAs, ControlNets. Read when the view is shown. */
import { computed, signal } from "@preact/signals";
import { api, body, type Schemas } from "../../api/client";
import { key, notedKey } from "../../api/key";
import { sentence } from "../../api/problem";
import { draft } from "./draft";

export type Model = Schemas["ModelView"];
export type Lora = Schemas["LoraView"];
export type ControlNet = Schemas["ControlNetView"];

export const models = signal<Model[]>([]);
export const applications = signal<string[]>([]);
export const loras = signal<Lora[]>([]);
export const controlnets = signal<ControlNet[]>([]);
export const maxImages = signal(8);
export const maxControls = signal(0);
/** Why the lists are not here; null: they are. */
export const servedFault = signal<string | null>(null);

/** The model that was chosen; null: the service chooses. */
export const chosen = computed(() => models.value.find((each) => each.id === draft.value.model) ?? null);

/** The models that make images from words. */
export const makers = computed(() => models.value.filter((each) => each.tasks.includes("generate")));

/** Whose sizes and steps the form shows: the chosen one, else the best that there is. */
export const guide = computed(
  () => chosen.value ?? [...makers.value].sort((a, b) => (b.quality ?? 0) - (a.quality ?? 0))[0] ?? null,
);

let reading = Promise.resolve();

/** Ask for all lists again. */
export function readServed(): Promise<void> {
  return (reading = read());
}

/** Wait for the lists that were asked for last. */
export function whenServed(): Promise<void> {
  return reading;
}

async function read(): Promise<void> {
  const isSameKey = notedKey();
  try {
    const [served, kept, steering] = await Promise.all([
      body(api.GET("/v1/models")),
      body(api.GET("/v1/loras", { params: { query: { limit: 100 } } })),
      body(api.GET("/v1/controlnets", { params: { query: { limit: 100 } } })),
    ]);
    if (!isSameKey()) return;
    models.value = served.data;
    applications.value = served.applications;
    maxImages.value = served.max_images;
    loras.value = kept.data;
    controlnets.value = steering.data;
    maxControls.value = steering.max_controls;
    servedFault.value = null;
  } catch (error) {
    if (isSameKey()) servedFault.value = sentence(error);
  }
}

/** Another key may be another tenant's: what the last one kept is not shown. */
key.subscribe(() => {
  loras.value = [];
  controlnets.value = [];
});
