// Choices from a list: closed, or with a text field.

import {
  Button as AriaButton,
  ComboBox as AriaComboBox,
  Select as AriaSelect,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  SelectValue,
} from "react-aria-components";
import { Icon } from "./Icon";

export interface Option {
  id: string;
  label: string;
  hint?: string;
}

export interface SelectProps {
  label: string;
  isLabelHidden?: boolean;
  options: readonly Option[];
  value: string | null;
  onChange: (id: string) => void;
  placeholder?: string;
}

export function Select({ label, isLabelHidden, options, value, onChange, placeholder }: SelectProps) {
  return (
    <AriaSelect
      className="ui-field"
      aria-label={isLabelHidden ? label : undefined}
      value={value}
      onChange={(key) => key !== null && onChange(String(key))}
      placeholder={placeholder}
    >
      {!isLabelHidden && <Label className="ui-label">{label}</Label>}
      <AriaButton className="ui-button ui-select-button">
        <SelectValue className="ui-select-value" />
        <Icon name="chevronDown" size={14} />
      </AriaButton>
      <Popover className="ui-popover" offset={4}>
        <ListBox className="ui-list" items={options}>
          {(option) => <OptionItem option={option} />}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

function OptionItem({ option }: { option: Option }) {
  return (
    <ListBoxItem className="ui-item" id={option.id} textValue={option.label}>
      {({ isSelected }) => (
        <>
          <span className="ui-item-text">
            {option.label}
            {option.hint && <span className="ui-item-hint">{option.hint}</span>}
          </span>
          {isSelected && <Icon name="check" size={14} />}
        </>
      )}
    </ListBoxItem>
  );
}

export interface ComboBoxProps {
  label: string;
  isLabelHidden?: boolean;
  options: readonly Option[];
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  /** Whether a text that is not in the list is accepted. */
  isCreatable?: boolean;
}

export function ComboBox({ label, isLabelHidden, options, value, onChange, placeholder, isCreatable }: ComboBoxProps) {
  return (
    <AriaComboBox
      className="ui-field"
      aria-label={isLabelHidden ? label : undefined}
      inputValue={value}
      onInputChange={onChange}
      onSelectionChange={(key) => key !== null && onChange(String(key))}
      allowsCustomValue={isCreatable ?? false}
      menuTrigger="focus"
    >
      {!isLabelHidden && <Label className="ui-label">{label}</Label>}
      <Input className="ui-input" placeholder={placeholder} spellCheck={false} />
      <Popover className="ui-popover" offset={4}>
        <ListBox className="ui-list" items={options}>
          {(option: Option) => <OptionItem option={option} />}
        </ListBox>
      </Popover>
    </AriaComboBox>
  );
}
