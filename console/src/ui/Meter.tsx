// How much of a bound is in use.

interface MeterProps {
  /** The id of the element that names it. */
  labelledBy: string;
  value: number;
  max: number;
  /** The value as a text, for screen readers. */
  valueText: string;
  /** Colours the bar, beside a text that gives the reason. */
  tone?: "accent" | "warning" | "danger";
}

/** The value may exceed the bound: the bar is then full. */
export function Meter({ labelledBy, value, max, valueText, tone = "accent" }: MeterProps) {
  const shown = Math.min(value, max);
  return (
    <div
      className={`ui-meter ${tone}`}
      role="meter"
      aria-labelledby={labelledBy}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={shown}
      aria-valuetext={valueText}
    >
      <i style={{ width: `${max === 0 ? 100 : (shown * 100) / max}%` }} />
    </div>
  );
}
