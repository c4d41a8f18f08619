/** The models that are served: what each is, where it stands, and what it makes. */
import { Box, Plus } from "lucide";
import { useState } from "preact/hooks";
import { api, body } from "../api/client";
import { faultOf, usePolled } from "../api/polled";
import { sentence } from "../api/problem";
import { Button } from "../components/button";
import { Confirm } from "../components/dialog";
import { Empty } from "../components/empty";
import { say } from "../components/toast";
import { AddModel } from "./add_model";
import { ModelCard } from "./model_card";
import { Part } from "./part";
import type { Rights } from "./rights";

const OFTEN_MS = 5_000;

export function ModelList({ rights }: { rights: Rights }) {
  const served = usePolled(() => body(api.GET("/v1/models")), OFTEN_MS);
  const [isAdding, setAdding] = useState(false);
  const [leaving, setLeaving] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);

  const remove = async (name: string) => {
    setLeaving(null);
    try {
      await api.DELETE("/v1/models/{name}", { params: { path: { name } } });
      say(`${name} is served no more`);
      setFault(null);
    } catch (error) {
      setFault(sentence(error));
    }
    served.again();
  };
  const models = [...(served.data?.data ?? [])].sort((a, b) => Number(b.is_resident) - Number(a.is_resident) || (b.quality ?? 0) - (a.quality ?? 0));
  return (
    <Part
      title="Models" hint="Folders of diffusers' layout on the disk of the service. The plan decides which workers hold which."
      actions={rights.operates && <Button icon={Plus} onClick={() => setAdding(true)}>Add a model</Button>}
      fault={fault ?? faultOf(served)}
    >
      {served.data && !models.length && <Empty icon={Box} title="No model is served">Add a folder or a checkpoint by its path.</Empty>}
      <ul class="cards">
        {models.map((model) => <ModelCard key={model.id} model={model} onRemove={rights.operates ? () => setLeaving(model.id) : undefined} />)}
      </ul>
      {isAdding && <AddModel onClose={() => setAdding(false)} onAdded={served.again} />}
      {leaving !== null && (
        <Confirm title={`Serve ${leaving} no more?`} verb="Remove" onYes={() => remove(leaving)} onNo={() => setLeaving(null)}>
          <p>Jobs that wait for it move to another model, or fail where they named it. Its files stay where they are, unless it was converted from a checkpoint.</p>
        </Confirm>
      )}
    </Part>
  );
}
