/** A number on a scale, with what it is now beside its name. */
import { useId } from "preact/hooks";

interface Props {
  label: string;
  value: number;
  min: number;
  max: number;
  step: number;
  onChange: (value: number) => void;
  name?: string;
  fault?: string | undefined;
}

export function RangeField({ label, value, onChange, fault, ...rest }: Props) {
  const id = useId();
  return (
    <div class="field range">
      <label for={id}>{label} <output for={id} class="num">{value}</output></label>
      <input id={id} type="range" value={value} aria-invalid={fault ? "true" : undefined} aria-describedby={fault ? `${id}-below` : undefined} onInput={(event) => onChange(event.currentTarget.valueAsNumber)} {...rest} />
      {fault && <p id={`${id}-below`} class="fault">{fault}</p>}
    </div>
  );
}
