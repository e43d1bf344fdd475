// Small labels: values that can be removed, and tags.

import { t } from "../lib/i18n";
import { Button } from "./Button";

export interface Chip {
  id: string;
  name: string;
  value: string;
}

export function Chips({
  label,
  chips,
  onRemove,
}: {
  label: string;
  chips: readonly Chip[];
  onRemove: (id: string) => void;
}) {
  return (
    <ul className="ui-chips" aria-label={label}>
      {chips.map((chip) => (
        <li key={chip.id} className="ui-chip">
          <span className="name">{chip.name}</span>
          <span className="cut" title={chip.value}>
            {chip.value}
          </span>
          <Button
            icon="close"
            size="small"
            tone="ghost"
            label={t("ui.removeFilter", { name: chip.name })}
            onPress={() => onRemove(chip.id)}
          />
        </li>
      ))}
    </ul>
  );
}

export function Tag({ children, title }: { children: string; title?: string }) {
  return (
    <span className="ui-tag" title={title ?? children}>
      <span className="cut">{children}</span>
    </span>
  );
}
