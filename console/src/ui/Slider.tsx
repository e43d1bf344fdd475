// A value of a range.

import { Slider as AriaSlider, SliderThumb, SliderTrack } from "react-aria-components";

interface SliderProps {
  label: string;
  min: number;
  max: number;
  value: number;
  onChange: (value: number) => void;
  /** What the value means, for screen readers. */
  valueText?: string;
}

export function Slider({ label, min, max, value, onChange }: SliderProps) {
  return (
    <AriaSlider
      className="ui-slider"
      aria-label={label}
      minValue={min}
      maxValue={max}
      value={value}
      onChange={(next) => typeof next === "number" && onChange(next)}
    >
      <SliderTrack className="ui-slider-track">
        {({ state }) => (
          <>
            <div className="ui-slider-fill" style={{ width: `${state.getThumbPercent(0) * 100}%` }} />
            <SliderThumb className="ui-slider-thumb" />
          </>
        )}
      </SliderTrack>
    </AriaSlider>
  );
}
