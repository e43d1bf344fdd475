// A field for a moment: a time, or a span before now such as `24h`.

import { useState } from "react";
import { t } from "../lib/i18n";
import { DAY, formatAbsolute, HOUR, MINUTE, SECOND } from "../lib/time";
import { TextField } from "./TextField";

const UNITS: Record<string, number> = { s: SECOND, m: MINUTE, h: HOUR, d: DAY };

/** The moment that a text names, in milliseconds; null if it names none. */
export function parseMoment(text: string, now: number): number | null {
  const span = /^(\d+)\s*([smhd])$/.exec(text.trim());
  if (span?.[1] && span[2]) return now - Number(span[1]) * (UNITS[span[2]] ?? 0);
  const ms = Date.parse(text.trim().replace(/^(\d{4}-\d\d-\d\d) /, "$1T"));
  return Number.isNaN(ms) ? null : ms;
}

interface DateTimeProps {
  label: string;
  /** RFC 3339, or null. */
  value: string | null;
  onChange: (value: string | null) => void;
}

export function DateTime({ label, value, onChange }: DateTimeProps) {
  const [text, setText] = useState(value ?? "");
  const moment = text.trim() === "" ? null : parseMoment(text, Date.now());
  const isWrong = text.trim() !== "" && moment === null;
  return (
    <TextField
      label={label}
      value={text}
      placeholder={t("ui.momentExample")}
      hint={moment === null ? undefined : formatAbsolute(moment)}
      error={isWrong ? t("ui.momentWrong") : null}
      onChange={(next) => {
        setText(next);
        const found = next.trim() === "" ? null : parseMoment(next, Date.now());
        if (next.trim() === "" || found !== null) onChange(found === null ? null : new Date(found).toISOString());
      }}
    />
  );
}
