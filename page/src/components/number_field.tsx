/** A number that may be left out; what is no number is left out. */
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
  const read = (event: { currentTarget: HTMLInputElement }) => {
    const { value: text, valueAsNumber: number } = event.currentTarget;
    onChange(text === "" || Number.isNaN(number) ? null : number);
  };
  return (
    <Field label={label} fault={fault ?? null}>
      <input type="number" inputMode="decimal" autocomplete="off" value={value ?? ""} onInput={read} {...rest} />
    </Field>
  );
}
