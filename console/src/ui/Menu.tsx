// Actions behind a button.

import type { ReactElement } from "react";
import { Menu as AriaMenu, MenuItem, MenuTrigger, Popover, Separator } from "react-aria-components";
import { Icon, type IconName } from "./Icon";

export interface MenuEntry {
  id: string;
  label: string;
  icon?: IconName;
  tone?: "plain" | "danger";
  /** Why the action is not possible now. */
  reason?: string | null;
  onAction?: () => void;
  href?: string;
  isSelected?: boolean;
  startsGroup?: boolean;
}

export function Menu({
  trigger,
  label,
  entries,
}: {
  trigger: ReactElement;
  label: string;
  entries: readonly MenuEntry[];
}) {
  return (
    <MenuTrigger>
      {trigger}
      <Popover className="ui-popover" offset={4} placement="bottom end">
        <AriaMenu
          className="ui-list"
          aria-label={label}
          disabledKeys={entries.filter((entry) => entry.reason).map((entry) => entry.id)}
        >
          {entries.flatMap((entry) => [
            ...(entry.startsGroup ? [<Separator key={`${entry.id}-line`} className="ui-separator" />] : []),
            <MenuItem
              key={entry.id}
              id={entry.id}
              className={entry.tone === "danger" && !entry.reason ? "ui-item danger" : "ui-item"}
              textValue={entry.label}
              onAction={entry.onAction}
              {...(entry.href ? { href: entry.href } : {})}
            >
              {entry.icon && <Icon name={entry.icon} size={14} />}
              <span className="ui-item-text">
                {entry.label}
                {entry.reason && <span className="ui-item-hint">{entry.reason}</span>}
              </span>
              {entry.isSelected && <Icon name="check" size={14} />}
            </MenuItem>,
          ])}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  );
}
