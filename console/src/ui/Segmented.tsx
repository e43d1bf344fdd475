// A few choices of which one is selected.

import { ToggleButton, ToggleButtonGroup } from "react-aria-components";
import { Icon, type IconName } from "./Icon";

interface SegmentedProps<T extends string> {
  label: string;
  options: ReadonlyArray<{ id: T; label: string; icon?: IconName }>;
  value: T;
  onChange: (value: T) => void;
}

export function Segmented<T extends string>({ label, options, value, onChange }: SegmentedProps<T>) {
  return (
    <ToggleButtonGroup
      className="ui-segmented"
      aria-label={label}
      selectionMode="single"
      disallowEmptySelection
      selectedKeys={[value]}
      onSelectionChange={(keys) => {
        const [next] = keys;
        if (next !== undefined) onChange(String(next) as T);
      }}
    >
      {options.map((option) => (
        <ToggleButton key={option.id} id={option.id} className="ui-segment">
          {option.icon && <Icon name={option.icon} size={14} />}
          {option.label}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}
