/** Have a model served: its path is looked at first, then it is added. */
import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { Problem, sentence } from "../api/problem";
import { Button } from "../components/button";
import { Dialog } from "../components/dialog";
import { Field } from "../components/field";
import { Notice } from "../components/notice";
import { say } from "../components/toast";
import { Facts } from "./model_card";

interface Props {
  onClose: () => void;
  onAdded: () => void;
}

export function AddModel({ onClose, onAdded }: Props) {
  const [asked, setAsked] = useState({ path: "", name: "", base: "" });
  const [found, setFound] = useState<Schemas["ModelView"] | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);

  const ask = async (dry_run: boolean) => {
    setBusy(true);
    setFault(null);
    const { path, name, base } = asked;
    const request = { path, dry_run, ...(name && { name }), ...(base && { base }) };
    try {
      const model = await body(api.POST("/v1/models", { body: request }));
      setFound(model);
      if (dry_run) return;
      say(`${model.id} is served`);
      onAdded();
      onClose();
    } catch (error) {
      setFault(error);
      setFound(null);
    } finally {
      setBusy(false);
    }
  };
  const send = (event: Event) => {
    event.preventDefault();
    void ask(found === null);
  };
  const field = (name: keyof typeof asked) => ({
    name,
    value: asked[name],
    autocomplete: "off" as const,
    spellcheck: false,
    onInput: (event: { currentTarget: HTMLInputElement }) => {
      setAsked({ ...asked, [name]: event.currentTarget.value });
      setFound(null);
    },
  });
  const wrong = fault instanceof Problem ? fault.fields : new Map<string, string>();
  return (
    <Dialog title="Add a model" onClose={onClose}>
      <form onSubmit={send}>
        <div class="dialog-body form">
          <Field label="Path on the disk of the service" fault={wrong.get("path") ?? null} hint="A folder of diffusers' layout, or a .safetensors checkpoint, which is converted: that takes minutes.">
            <input required autofocus {...field("path")} />
          </Field>
          <Field label="Name, if not that of the folder" fault={wrong.get("name") ?? null}><input maxLength={64} {...field("name")} /></Field>
          <Field label="Base folder, of a checkpoint that is not whole" fault={wrong.get("base") ?? null}><input {...field("base")} /></Field>
          {fault !== null && wrong.size === 0 && <Notice kind="bad">{sentence(fault)}</Notice>}
          {isBusy && <p class="quiet small" role="status">Its files are read…</p>}
          {found && (
            <div class="found" role="status">
              <p>It would be served as <b>{found.id}</b>:</p>
              <Facts of={found} />
            </div>
          )}
        </div>
        <footer class="dialog-foot">
          <Button look="plain" onClick={onClose}>Cancel</Button>
          <Button type="submit" disabled={isBusy}>{found ? "Add it" : "Look at it"}</Button>
        </footer>
      </form>
    </Dialog>
  );
}
