/** Files that a tenant keeps, of any kind: listed page by page, uploaded, deleted. */
import { Trash2, Upload } from "lucide";
import type { IconNode } from "lucide";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { upload } from "../api/client";
import { sentence } from "../api/problem";
import { Button, IconButton } from "../components/button";
import { Confirm } from "../components/dialog";
import { Empty } from "../components/empty";
import { say } from "../components/toast";
import { Part } from "./part";

/** One page of what is kept. */
export interface KeptPage<T> {
  data: readonly T[];
  cursor: string | null;
}

interface Kept {
  id: string;
  /** Nothing: it belongs to the service, and stays. */
  created_at?: number | null;
}

interface Props<T extends Kept> {
  title: string;
  hint: string;
  icon: IconNode;
  /** What one of them is called. */
  noun: string;
  /** Where files are sent, with what is said of them. */
  path: string;
  list: (cursor: string | null) => Promise<KeptPage<T>>;
  remove: (id: string) => Promise<unknown>;
  columns: readonly { name: string; of: (kept: T) => ComponentChildren; isNumber?: boolean }[];
}

const WEIGHTS = "application/octet-stream";

export function KeptList<T extends Kept>({ title, hint, icon, noun, path, list, remove, columns }: Props<T>) {
  const [shown, setShown] = useState<T[] | null>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [leaving, setLeaving] = useState<T | null>(null);
  const [sending, setSending] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const chosen = useRef<HTMLInputElement>(null);

  const attempt = async (doing: () => Promise<void>) => {
    setFault(null);
    await doing().catch((error: unknown) => setFault(sentence(error)));
  };
  const read = async (from: string | null) => {
    const page = await list(from);
    setShown((before) => [...(from ? (before ?? []) : []), ...page.data]);
    setCursor(page.cursor);
  };
  useEffect(() => void attempt(() => read(null)), []);

  const send = async (file: File) => {
    setSending(file.name);
    await attempt(async () => {
      await upload(path, file, WEIGHTS);
      say(`${file.name} is kept`);
      await read(null);
    });
    setSending(null);
  };
  const give = (event: { currentTarget: HTMLInputElement }) => {
    const [file] = event.currentTarget.files ?? [];
    event.currentTarget.value = "";
    if (file) void send(file);
  };
  const forget = (kept: T) => {
    setLeaving(null);
    void attempt(async () => {
      await remove(kept.id);
      say(`The ${noun} is deleted`);
      await read(null);
    });
  };
  return (
    <Part
      title={title} hint={hint} fault={fault}
      actions={
        <>
          <Button icon={Upload} disabled={sending !== null} onClick={() => chosen.current!.click()}>{sending ? "Sending…" : `Upload ${noun}`}</Button>
          <input ref={chosen} class="only-heard" type="file" accept=".safetensors" tabIndex={-1} aria-label={`File of the ${noun}`} onChange={give} />
        </>
      }
    >
      {sending && <p class="quiet small" role="status">{sending} is sent and checked against the models…</p>}
      {shown?.length === 0 && <Empty icon={icon} title="Nothing is kept">Upload a .safetensors file; it is checked against the models that are served.</Empty>}
      {shown && shown.length > 0 && (
        <table class="card rows">
          <thead>
            <tr>
              {columns.map(({ name, isNumber }) => <th key={name} scope="col" class={isNumber ? "num" : ""}>{name}</th>)}
              <th scope="col"><span class="only-heard">Actions</span></th>
            </tr>
          </thead>
          <tbody>
            {shown.map((kept) => (
              <tr key={kept.id}>
                {columns.map(({ name, of, isNumber }, i) =>
                  i === 0
                    ? <th key={name} scope="row">{of(kept)}</th>
                    : <td key={name} data-label={name} class={isNumber ? "num" : ""}>{of(kept)}</td>,
                )}
                <td class="act">
                  {kept.created_at == null
                    ? <span class="quiet small">of the service</span>
                    : <IconButton icon={Trash2} label={`Delete the ${noun} ${kept.id}`} onClick={() => setLeaving(kept)} />}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {cursor && <Button look="plain" onClick={() => attempt(() => read(cursor))}>Show more</Button>}
      {leaving && (
        <Confirm title={`Delete this ${noun}?`} verb="Delete" onYes={() => forget(leaving)} onNo={() => setLeaving(null)}>
          <p>No new job may name it. Jobs that were accepted still find its file.</p>
          <p class="quiet small"><code>{leaving.id}</code></p>
        </Confirm>
      )}
    </Part>
  );
}
