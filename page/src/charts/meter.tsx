/** How much of a whole is taken, as a bar. */
export function Meter({ label, value }: { label: string; value: number }) {
  const share = Math.min(1, Math.max(0, value));
  return (
    <span class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)}>
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}
