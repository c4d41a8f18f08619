/** The parts of the view, each with an address of its own: `#/models/loras`. */
import { signal } from "@preact/signals";

export const SECTIONS = ["models", "loras", "controlnets", "embeddings", "ip-adapters", "tenants", "keys"] as const;
export type Section = (typeof SECTIONS)[number];

export const TITLES: Record<Section, string> = {
  models: "Models",
  loras: "LoRAs",
  controlnets: "ControlNets",
  embeddings: "Embeddings",
  "ip-adapters": "IP-Adapters",
  tenants: "Tenants",
  keys: "Keys",
};

/** Parts that concern more than one tenant. */
export const OF_OPERATORS: readonly Section[] = ["tenants", "keys"];

function read(): Section {
  const named = location.hash.split("/")[2];
  return SECTIONS.find((each) => each === named) ?? "models";
}

export const section = signal<Section>(read());

addEventListener("hashchange", () => {
  section.value = read();
});
