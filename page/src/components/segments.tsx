/** One of two or three, all in sight. */
import { useId } from "preact/hooks";

interface Props<T extends string> {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}

export function Segments<T extends string>({ label, value, options, onChange }: Props<T>) {
  const name = useId();
  return (
    <fieldset class="segments">
      <legend class="only-heard">{label}</legend>
      {options.map(([each, title]) => (
        <label key={each}>
          <input class="only-heard" type="radio" name={name} value={each} checked={each === value} onChange={() => onChange(each)} />
          <span>{title}</span>
        </label>
      ))}
    </fieldset>
  );
}
