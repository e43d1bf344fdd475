// Fields for texts and numbers.

import type { KeyboardEvent } from "react";
import {
  Button as AriaButton,
  NumberField as AriaNumberField,
  TextField as AriaTextField,
  FieldError,
  Group,
  Input,
  Label,
  Text,
  TextArea,
} from "react-aria-components";
import { Icon, type IconName } from "./Icon";

interface FieldProps {
  label: string;
  /** The label is read aloud, not shown. */
  isLabelHidden?: boolean;
  hint?: string;
  error?: string | null;
  isRequired?: boolean;
  isDisabled?: boolean;
}

export interface TextFieldProps extends FieldProps {
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  type?: "text" | "password" | "search";
  rows?: number;
  isCode?: boolean;
  icon?: IconName;
  autoFocus?: boolean;
  onKeyDown?: (event: KeyboardEvent) => void;
  onFocus?: () => void;
  onBlur?: () => void;
  name?: string;
}

export function TextField(props: TextFieldProps) {
  const { label, isLabelHidden, hint, error, rows, isCode, icon } = props;
  const common = {
    className: isCode ? "ui-input code" : "ui-input",
    placeholder: props.placeholder,
    translate: isCode ? ("no" as const) : undefined,
  };
  const input =
    rows === undefined ? (
      <Input {...common} spellCheck={false} autoComplete="off" />
    ) : (
      <TextArea {...common} rows={rows} spellCheck={!isCode} />
    );
  return (
    <AriaTextField
      className="ui-field"
      aria-label={isLabelHidden ? label : undefined}
      value={props.value}
      onChange={props.onChange}
      type={props.type ?? "text"}
      name={props.name}
      isInvalid={Boolean(error)}
      isRequired={props.isRequired}
      isDisabled={props.isDisabled}
      autoFocus={props.autoFocus}
      onKeyDown={props.onKeyDown as never}
      onFocus={props.onFocus}
      onBlur={props.onBlur}
    >
      {!isLabelHidden && <Label className="ui-label">{label}</Label>}
      {icon ? (
        <div className="ui-with-icon">
          <Icon name={icon} />
          {input}
        </div>
      ) : (
        input
      )}
      {hint && !error && (
        <Text slot="description" className="ui-hint">
          {hint}
        </Text>
      )}
      <FieldError className="ui-error">{error}</FieldError>
    </AriaTextField>
  );
}

export interface NumberFieldProps extends FieldProps {
  value: number | null;
  onChange: (value: number | null) => void;
  min?: number;
  max?: number;
}

export function NumberField(props: NumberFieldProps) {
  return (
    <AriaNumberField
      className="ui-field"
      aria-label={props.isLabelHidden ? props.label : undefined}
      value={props.value ?? Number.NaN}
      onChange={(value) => props.onChange(Number.isNaN(value) ? null : value)}
      minValue={props.min}
      maxValue={props.max}
      isInvalid={Boolean(props.error)}
      isDisabled={props.isDisabled}
    >
      {!props.isLabelHidden && <Label className="ui-label">{props.label}</Label>}
      <Group className="ui-number">
        <Input className="ui-input" />
        <div className="ui-steps">
          <AriaButton slot="increment">
            <Icon name="chevronUp" size={10} />
          </AriaButton>
          <AriaButton slot="decrement">
            <Icon name="chevronDown" size={10} />
          </AriaButton>
        </div>
      </Group>
      {props.hint && (
        <Text slot="description" className="ui-hint">
          {props.hint}
        </Text>
      )}
      <FieldError className="ui-error">{props.error}</FieldError>
    </AriaNumberField>
  );
}
