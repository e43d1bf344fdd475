// A button, with an icon, a text or both.

import type { ReactNode } from "react";
import { Button as AriaButton } from "react-aria-components";
import { Icon, type IconName } from "./Icon";
import { Tooltip } from "./Tooltip";

export interface ButtonProps {
  children?: ReactNode;
  icon?: IconName;
  /** The name of a button without a text; also its tooltip. */
  label?: string;
  tone?: "plain" | "primary" | "danger" | "danger-solid" | "ghost";
  size?: "medium" | "small";
  onPress?: () => void;
  type?: "button" | "submit";
  isDisabled?: boolean;
  isPending?: boolean;
  /** Why the button is disabled. It then stays in the tab order and says so. */
  reason?: string | null;
  slot?: string;
  autoFocus?: boolean;
  className?: string;
  isExpanded?: boolean;
  /** Whether a button that is switched on and off is on. */
  isPressed?: boolean;
}

export function Button(props: ButtonProps) {
  const { children, icon, label, tone = "plain", size = "medium", reason, className = "" } = props;
  const isBlocked = Boolean(reason);
  const classes = ["ui-button", tone, size === "small" && "small", !children && "icon-only", className];
  const button = (
    <AriaButton
      className={classes.filter(Boolean).join(" ")}
      type={props.type ?? "button"}
      slot={props.slot}
      aria-label={children ? undefined : label}
      aria-disabled={isBlocked || undefined}
      data-disabled={isBlocked || props.isDisabled || undefined}
      aria-expanded={props.isExpanded}
      aria-pressed={props.isPressed}
      isDisabled={props.isDisabled}
      isPending={props.isPending}
      autoFocus={props.autoFocus}
      onPress={isBlocked ? undefined : props.onPress}
    >
      {icon && <Icon name={icon} size={size === "small" ? 14 : 16} />}
      {children}
    </AriaButton>
  );
  const tip = reason ?? (children ? null : label);
  return tip ? <Tooltip text={tip}>{button}</Tooltip> : button;
}
