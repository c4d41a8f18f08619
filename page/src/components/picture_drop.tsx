/** A place for a picture: chosen, or dropped. */
import { ImagePlus } from "lucide";
import { useId, useState } from "preact/hooks";
import { Icon } from "./icon";

interface Props {
  label: string;
  hint?: string;
  fault?: string | null | undefined;
  /** What is given; what it raises is shown. */
  onPick: (file: File) => Promise<void>;
}

export function PictureDrop({ label, hint, fault, onPick }: Props) {
  const id = useId();
  const [isOver, setOver] = useState(false);
  const [own, setOwn] = useState<string | null>(null);
  const pick = async (file: File | null | undefined) => {
    if (!file) return;
    setOwn(null);
    await onPick(file).catch((error: Error) => setOwn(error.message));
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void pick(event.dataTransfer?.files[0]);
  };
  const said = own ?? fault;
  const describedBy = said || hint ? `${id}-below` : undefined;
  return (
    <div class="field">
      <label class={`drop ${isOver ? "over" : ""}`} for={id} onDragOver={(event) => (event.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)} onDrop={drop}>
        <Icon of={ImagePlus} />
        <span>{label}</span>
        <input id={id} class="only-heard" type="file" accept="image/*" aria-invalid={said ? "true" : undefined} aria-describedby={describedBy} onChange={(event) => void pick(event.currentTarget.files?.[0])} />
      </label>
      {(said || hint) && <p id={`${id}-below`} class={said ? "fault" : "hint"}>{said ?? hint}</p>}
    </div>
  );
}
