// Sizes of data.

import { formatNumber } from "./i18n";

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** `812B`, `1.4MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let index = 0;
  while (value >= 1_000 && index < UNITS.length - 1) {
    value /= 1_000;
    index += 1;
  }
  const unit = UNITS[index] ?? "byte";
  return formatNumber(value, {
    style: "unit",
    unit,
    unitDisplay: "narrow",
    maximumFractionDigits: index === 0 ? 0 : 1,
  });
}
