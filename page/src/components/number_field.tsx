/** A number that may be left out; what is no number is left out. */
import { useRef } from "preact/hooks";
import { Field } from "./field";

interface Props {
  name: string;
  label: string;
  value: number | null;
  onChange: (value: number | null) => void;
  fault?: string | undefined;
  /** What the service takes where nothing is said. */
  placeholder?: string | undefined;
  min?: number;
  max?: number;
  step?: number | "any";
}

export function NumberField({ label, value, onChange, fault, ...rest }: Props) {
  const typed = useRef("");
  const read = (event: { currentTarget: HTMLInputElement }) => {
    typed.current = event.currentTarget.value;
    onChange(meant(typed.current));
  };
  return (
    <Field label={label} fault={fault ?? null}>
      <input type="number" inputMode="decimal" autocomplete="off" value={written(value, typed.current)} onInput={read} {...rest} />
    </Field>
  );
}

function meant(text: string): number | null {
  const number = Number(text);
  return text === "" || Number.isNaN(number) ? null : number;
}

/** As it was typed, "0.0" on the way to "0.05" too, unless it means another number, or has more digits than numbers keep. */
function written(value: number | null, typed: string): string {
  const isExact = value === null || Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return isExact && meant(typed) === value ? typed : String(value ?? "");
}
