// A choice that is on or off.

import type { ReactNode } from "react";
import { Checkbox as AriaCheckbox, Switch as AriaSwitch } from "react-aria-components";
import { Icon } from "./Icon";

interface CheckboxProps {
  isSelected: boolean;
  onChange: (isSelected: boolean) => void;
  children?: ReactNode;
  label?: string;
  isIndeterminate?: boolean;
  isDisabled?: boolean;
  /** Leaves the box out of the tab order: the row around it has the same key. */
  isInRow?: boolean;
}

export function Checkbox(props: CheckboxProps) {
  return (
    <AriaCheckbox
      className="ui-check"
      aria-label={props.label}
      isSelected={props.isSelected}
      isIndeterminate={props.isIndeterminate}
      isDisabled={props.isDisabled}
      onChange={props.onChange}
      excludeFromTabOrder={props.isInRow}
    >
      <span className="box">
        {props.isIndeterminate ? <Icon name="minus" size={12} /> : props.isSelected && <Icon name="check" size={12} />}
      </span>
      {props.children}
    </AriaCheckbox>
  );
}

export function Switch({ isSelected, onChange, children, isDisabled }: Omit<CheckboxProps, "label">) {
  return (
    <AriaSwitch className="ui-check ui-switch" isSelected={isSelected} onChange={onChange} isDisabled={isDisabled}>
      <span className="track" />
      {children}
    </AriaSwitch>
  );
}
