// A dialog in which a person writes a few letters and chooses one of the commands that match.

import { type KeyboardEvent, useId, useState } from "react";
import { Dialog as AriaDialog, Modal, ModalOverlay } from "react-aria-components";
import { t } from "../lib/i18n";
import { Icon, type IconName } from "./Icon";
import { Kbd } from "./Kbd";
import { rowAfterKey } from "./rowKeys";
import { TextField } from "./TextField";

export interface Command {
  id: string;
  group: string;
  label: string;
  icon: IconName;
  keys?: string;
  run: () => void;
}

interface CommandDialogProps {
  label: string;
  placeholder: string;
  isOpen: boolean;
  onClose: () => void;
  /** The commands for a text, best first, those of a group together. */
  find: (text: string) => readonly Command[];
}

export function CommandDialog({ label, placeholder, isOpen, onClose, find }: CommandDialogProps) {
  return (
    <ModalOverlay className="ui-overlay" isOpen={isOpen} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className="ui-modal">
        <AriaDialog className="ui-dialog" aria-label={label}>
          <CommandList placeholder={placeholder} onClose={onClose} find={find} />
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

function CommandList({ placeholder, onClose, find }: Pick<CommandDialogProps, "placeholder" | "onClose" | "find">) {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const listId = useId();
  const commands = find(text);
  const choose = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next =
      event.key === "Home" || event.key === "End" ? null : rowAfterKey(event.key, active, commands.length, 8);
    if (next !== null) setActive(next);
    else if (event.key === "Enter") choose(commands[active]);
    // The field keeps its keys from the dialog.
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className="ui-command-field">
        <TextField
          label={placeholder}
          isLabelHidden
          icon="search"
          placeholder={placeholder}
          value={text}
          autoFocus
          onChange={(next) => {
            setText(next);
            setActive(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div className="ui-command-list" role="listbox" id={listId} aria-label={placeholder}>
        {commands.map((command, index) => (
          <div key={command.id} role="presentation">
            {command.group !== commands[index - 1]?.group && <div className="ui-heading">{command.group}</div>}
            <div
              role="option"
              aria-selected={index === active}
              tabIndex={-1}
              className="ui-item"
              data-focused={index === active || undefined}
              ref={index === active ? (element) => element?.scrollIntoView({ block: "nearest" }) : undefined}
              onMouseMove={() => setActive(index)}
              onClick={() => choose(command)}
              onKeyDown={() => undefined}
            >
              <Icon name={command.icon} size={14} />
              <span className="ui-item-text cut">{command.label}</span>
              {command.keys && <Kbd keys={command.keys} />}
            </div>
          </div>
        ))}
        {commands.length === 0 && <p className="ui-command-none">{t("palette.none")}</p>}
      </div>
    </>
  );
}
