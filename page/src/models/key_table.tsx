/** Keys as a table, with what can be done to each that works. */
import { Ban, RotateCw } from "lucide";
import { IconButton } from "../components/button";
import { day } from "../format/time";
import { When } from "./cells";
import type { Key } from "./keys";

interface Props {
  keys: readonly Key[];
  onRotate: (key: Key) => void;
  onRevoke: (key: Key) => void;
}

export function KeyTable({ keys, onRotate, onRevoke }: Props) {
  return (
    <table class="card rows">
      <thead>
        <tr>
          <th scope="col">Tenant</th><th scope="col">Key</th><th scope="col">Scopes</th><th scope="col">State</th><th scope="col">Made</th>
          <th scope="col"><span class="only-heard">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <tr key={key.id}>
            <th scope="row">{key.tenant}</th>
            <td data-label="Key">{key.name || <span class="quiet">without a name</span>} <code class="small quiet">{key.id}</code></td>
            <td data-label="Scopes"><span class="tags">{key.scopes.map((scope) => <span key={scope} class={scope === "operate" ? "tag warn" : "tag"}>{scope}</span>)}</span></td>
            <td data-label="State"><State of={key} /></td>
            <td data-label="Made"><When at={key.created_at} /></td>
            <td class="act">
              {key.status === "active" && (
                <>
                  <IconButton icon={RotateCw} label={`Rotate ${named(key)}`} onClick={() => onRotate(key)} />
                  <IconButton icon={Ban} label={`Revoke ${named(key)}`} onClick={() => onRevoke(key)} />
                </>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function State({ of: key }: { of: Key }) {
  if (key.status !== "active") return <span class="tag bad">{key.status}</span>;
  return (
    <>
      <span class="tag good">works</span>
      {key.expires_at !== null && <span class="small quiet"> until {day(key.expires_at)}</span>}
    </>
  );
}

function named(key: Key): string {
  return `the key ${key.name || key.id} of ${key.tenant}`;
}
