/** ControlNets: those of the service, and those that this tenant keeps. */
import { Spline } from "lucide";
import { api, body } from "../api/client";
import { bytes } from "../format/number";
import { Id, Names, When } from "./cells";
import { KeptList } from "./kept_list";

const list = (cursor: string | null) => body(api.GET("/v1/controlnets", { params: { query: { cursor } } }));
const remove = (controlnet_id: string) => api.DELETE("/v1/controlnets/{controlnet_id}", { params: { path: { controlnet_id } } });

export function ControlNets() {
  return (
    <KeptList
      title="ControlNets" noun="ControlNet" icon={Spline} path="/v1/controlnets" list={list} remove={remove}
      hint="Networks that keep an image to a picture: to its outlines, its depth, its layout."
      columns={[
        { name: "Id", of: ({ id, is_adapter, modes }) => <Id of={id} {...((is_adapter || modes) && { note: is_adapter ? "T2I-Adapter" : `Union of ${modes}` })} /> },
        { name: "Its pictures show", of: ({ condition }) => condition || <span class="quiet">not said</span> },
        { name: "Models", of: ({ models }) => <Names of={models} /> },
        { name: "Size", of: (net) => (net.bytes == null ? "" : bytes(net.bytes)), isNumber: true },
        { name: "Kept since", of: ({ created_at }) => <When at={created_at} /> },
      ]}
    />
  );
}
