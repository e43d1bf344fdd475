// Which columns the list of runs shows: those of the address, else those of this browser.

import { readPreference, writePreference } from "../../lib/preference";

/** All columns, in the order in which they are shown. */
export const COLUMN_IDS: readonly string[] = "status workflow id error tags created duration parent origin".split(" ");
const DEFAULT_IDS: readonly string[] = COLUMN_IDS.slice(0, 7);

/** The columns that `view` of the address names; null if it names none that exist. */
export function columnsFromView(view: string | null): readonly string[] | null {
  const names = view?.split(",") ?? [];
  const known = COLUMN_IDS.filter((id) => names.includes(id));
  return known.length === 0 ? null : known;
}

export function viewOfColumns(ids: readonly string[]): string | null {
  return ids.length === 0 ? null : ids.join(",");
}

export function readColumns(): readonly string[] {
  return columnsFromView(readPreference("runs.columns")) ?? DEFAULT_IDS;
}

export function writeColumns(ids: readonly string[]): void {
  writePreference("runs.columns", viewOfColumns(ids));
}
