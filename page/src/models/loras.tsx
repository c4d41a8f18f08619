/** LoRAs that this tenant keeps. */
import { Layers } from "lucide";
import { api, body } from "../api/client";
import { bytes, count } from "../format/number";
import { Id, Names, When } from "./cells";
import { KeptList } from "./kept_list";

const list = (cursor: string | null) => body(api.GET("/v1/loras", { params: { query: { cursor } } }));
const remove = (lora_id: string) => api.DELETE("/v1/loras/{lora_id}", { params: { path: { lora_id } } });

export function Loras() {
  return (
    <KeptList
      title="LoRAs" noun="LoRA" icon={Layers} path="/v1/loras" list={list} remove={remove}
      hint="Styles and subjects that jobs name. Files of peft, diffusers, sd-scripts, LyCORIS and XLabs are read."
      columns={[
        { name: "Id", of: ({ id }) => <Id of={id} /> },
        { name: "Models", of: ({ models }) => <Names of={models} /> },
        { name: "Layers", of: ({ layers }) => count(layers), isNumber: true },
        { name: "Size", of: (lora) => bytes(lora.bytes), isNumber: true },
        { name: "Kept since", of: ({ created_at }) => <When at={created_at} /> },
      ]}
    />
  );
}
