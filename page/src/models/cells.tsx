/** What the tables of this view show of a thing. */
import { Copy } from "lucide";
import { IconButton } from "../components/button";
import { copy } from "../components/copy";
import { day } from "../format/time";

/** An id, short enough to read, whole when it is copied. */
export function Id({ of: id, note }: { of: string; note?: string }) {
  const isLong = id.length > 20;
  return (
    <span class="id">
      <code title={id}>{isLong ? `${id.slice(0, 12)}…` : id}</code>
      <IconButton icon={Copy} label={`Copy the id ${id}`} onClick={() => copy(id, "Id")} />
      {note && <span class="small quiet">{note}</span>}
    </span>
  );
}

/** Names of models. */
export function Names({ of: names }: { of: readonly string[] }) {
  return <span class="tags">{names.map((name) => <span key={name} class="tag">{name}</span>)}</span>;
}

/** A moment with its day, or nothing. */
export function When({ at }: { at: number | null | undefined }) {
  return at == null ? null : <time dateTime={new Date(at * 1000).toISOString()}>{day(at)}</time>;
}
