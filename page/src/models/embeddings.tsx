/** Learned embeddings that this tenant keeps. */
import { Quote } from "lucide";
import { api, body } from "../api/client";
import { bytes, count } from "../format/number";
import { Id, Names, When } from "./cells";
import { KeptList } from "./kept_list";

const list = (cursor: string | null) => body(api.GET("/v1/embeddings", { params: { query: { cursor } } }));
const remove = (embedding_id: string) => api.DELETE("/v1/embeddings/{embedding_id}", { params: { path: { embedding_id } } });

export function Embeddings() {
  return (
    <KeptList
      title="Embeddings" noun="embedding" icon={Quote} path="/v1/embeddings" list={list} remove={remove}
      hint="Words that prompts may say once a job names the embedding: textual inversion."
      columns={[
        { name: "Word", of: ({ token }) => <code>{token}</code> },
        { name: "Id", of: ({ id }) => <Id of={id} /> },
        { name: "Models", of: ({ models }) => <Names of={models} /> },
        { name: "Tokens", of: ({ vectors }) => count(vectors), isNumber: true },
        { name: "Size", of: (embedding) => bytes(embedding.bytes), isNumber: true },
        { name: "Kept since", of: ({ created_at }) => <When at={created_at} /> },
      ]}
    />
  );
}
