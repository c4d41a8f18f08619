/** Put a new key in the place of one, which works on for a while. */
import { useSignal } from "@preact/signals";
import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { sentence } from "../api/problem";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { Notice } from "../components/notice";
import { SelectField } from "../components/select_field";

interface Props {
  of: Schemas["KeyView"];
  onClose: () => void;
  onMade: (made: Schemas["NewKeyView"]) => void;
}

const OVERLAPS = [["0", "Not at all"], ["3600", "For an hour"], ["86400", "For a day"], ["604800", "For a week"]] as const;

export function RotateKey({ of: key, onClose, onMade }: Props) {
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number][0]>("86400");
  const [fault, setFault] = useState<string | null>(null);
  const isBusy = useSignal(false);
  const rotate = async () => {
    if (isBusy.value) return;
    isBusy.value = true;
    try {
      const params = { path: { key_id: key.id }, query: { overlap_s: Number(overlap) } };
      onMade(await body(api.POST("/v1/keys/{key_id}/rotate", { params })));
    } catch (error) {
      setFault(sentence(error));
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={`Rotate ${key.name || key.id}`} onClose={onClose}>
      <div class="dialog-body form">
        <p>A new key of {key.tenant} with the same scopes is made and shown once.</p>
        <SelectField name="overlap" label="The old key works on" value={overlap} options={OVERLAPS} onChange={setOverlap} />
        {fault && <Notice kind="bad">{fault}</Notice>}
      </div>
      <footer class="dialog-foot">
        <Button look="plain" onClick={onClose}>Cancel</Button>
        <Button disabled={isBusy.value} onClick={rotate}>Rotate</Button>
      </footer>
    </Dialog>
  );
}
