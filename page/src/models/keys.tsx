/** Keys of all tenants: made, rotated, revoked. Those of the settings are not among them. */
import { KeyRound, Plus } from "lucide";
import { useState } from "preact/hooks";
import { api, body, type Schemas } from "../api/client";
import { faultOf, usePolled } from "../api/polled";
import { sentence } from "../api/problem";
import { Button } from "../components/button";
import { Confirm } from "../components/dialog";
import { Empty } from "../components/empty";
import { say } from "../components/toast";
import { AddKey } from "./add_key";
import { KeyTable } from "./key_table";
import { NewKey } from "./new_key";
import { Part } from "./part";
import { RotateKey } from "./rotate_key";

export type Key = Schemas["KeyView"];

const SELDOM_MS = 30_000;

/** What is being done, to which key. */
type Doing = { what: "add" } | { what: "rotate" | "revoke"; key: Key } | { what: "show"; made: Schemas["NewKeyView"] } | null;

export function Keys() {
  const known = usePolled(() => body(api.GET("/v1/keys")), SELDOM_MS);
  const [doing, setDoing] = useState<Doing>(null);
  const [showsEnded, setShowsEnded] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const keys = known.data?.data ?? [];
  const ended = keys.filter(({ status }) => status !== "active").length;
  const shown = showsEnded ? keys : keys.filter(({ status }) => status === "active");

  const close = () => setDoing(null);
  const show = (made: Schemas["NewKeyView"]) => {
    setDoing({ what: "show", made });
    known.again();
  };
  const revoke = async (key: Key) => {
    close();
    try {
      await api.DELETE("/v1/keys/{key_id}", { params: { path: { key_id: key.id } } });
      say("The key works no more");
      setFault(null);
    } catch (error) {
      setFault(sentence(error));
    }
    known.again();
  };
  return (
    <Part
      title="Keys" hint="A key says whose a request is and what it may do. Changes hold within two seconds. Keys of the settings are not listed."
      actions={<Button icon={Plus} onClick={() => setDoing({ what: "add" })}>Make a key</Button>}
      fault={fault ?? faultOf(known)}
    >
      {known.data && !keys.length && <Empty icon={KeyRound} title="No key was made yet">A tenant is there as soon as it has a key.</Empty>}
      {shown.length > 0 && <KeyTable keys={shown} onRotate={(key) => setDoing({ what: "rotate", key })} onRevoke={(key) => setDoing({ what: "revoke", key })} />}
      {ended > 0 && (
        <label class="check small"><input type="checkbox" checked={showsEnded} onChange={(event) => setShowsEnded(event.currentTarget.checked)} />Show {ended} that {ended === 1 ? "works" : "work"} no more</label>
      )}
      {doing?.what === "add" && <AddKey onClose={close} onMade={show} />}
      {doing?.what === "rotate" && <RotateKey of={doing.key} onClose={close} onMade={show} />}
      {doing?.what === "show" && <NewKey made={doing.made} onClose={close} />}
      {doing?.what === "revoke" && (
        <Confirm title="Revoke this key?" verb="Revoke" onYes={() => revoke(doing.key)} onNo={close}>
          <p>Whoever uses it is turned away from now on: {doing.key.name || doing.key.id} of {doing.key.tenant}. This cannot be undone.</p>
        </Confirm>
      )}
    </Part>
  );
}
