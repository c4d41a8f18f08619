/** The view "Models": what is served and kept, and for operators whose it is. */
import type { ComponentType } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { faultOf, usePolled } from "../api/polled";
import { Notice } from "../components/notice";
import { ControlNets } from "./controlnets";
import { Embeddings } from "./embeddings";
import { IpAdapters } from "./ip_adapters";
import { Keys } from "./keys";
import { Loras } from "./loras";
import { ModelList } from "./model_list";
import { rights, type Rights } from "./rights";
import { OF_OPERATORS, section, SECTIONS, TITLES, type Section } from "./sections";
import { Tenants } from "./tenants";
import "../styles/tables.css";
import "./models.css";

const RIGHTS_MS = 300_000;

const PARTS: Record<Section, ComponentType<{ rights: Rights }>> = {
  models: ModelList,
  loras: Loras,
  controlnets: ControlNets,
  embeddings: Embeddings,
  "ip-adapters": IpAdapters,
  tenants: Tenants,
  keys: Keys,
};

export default function Models() {
  const known = usePolled(rights, RIGHTS_MS);
  const fault = faultOf(known);
  const may = known.data;
  const shown = SECTIONS.filter((each) => !OF_OPERATORS.includes(each) || (may?.operates && may.hasKeys));
  const Part = PARTS[section.value];
  const sections = useRef<HTMLElement>(null);
  useEffect(() => sections.current!.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [section.value, may]);
  return (
    <div class="kept">
      <h1 class="only-heard">Models</h1>
      <nav ref={sections} class="sections" aria-label="Parts of this view">
        {shown.map((each) => (
          <a key={each} href={`#/models/${each}`} aria-current={section.value === each ? "true" : undefined}>{TITLES[each]}</a>
        ))}
      </nav>
      {fault && <Notice kind="bad">{fault}</Notice>}
      {!may && !fault && <p class="quiet" role="status">Loading…</p>}
      {may && shown.includes(section.value) && <Part key={section.value} rights={may} />}
      {may && !shown.includes(section.value) && (
        <Notice kind="calm">{may.hasKeys ? "This part is for keys with the scope operate." : "This service asks for no keys, so that it has no tenants."}</Notice>
      )}
    </div>
  );
}
