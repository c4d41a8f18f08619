/** One of several, by name. */
import { Field } from "./field";

interface Props<T extends string> {
  name: string;
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  fault?: string | undefined;
  hint?: string | undefined;
}

export function SelectField<T extends string>({ name, label, value, options, onChange, fault, hint }: Props<T>) {
  return (
    <Field label={label} fault={fault ?? null} {...(hint && { hint })}>
      <select name={name} value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        {options.map(([each, title]) => <option key={each} value={each}>{title}</option>)}
      </select>
    </Field>
  );
}
