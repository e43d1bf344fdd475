// Names the journal entries that a run has had since a version.

import type { Head } from "../../../api/types";
import { t } from "../../../lib/i18n";

const NAMED_MAX = 5;

/** The entries after a version of the run, by their names and steps; empty if there are none. */
export function changesSince(heads: readonly Head[], version: number): string {
  const later = heads.slice(version);
  const named = later.slice(0, NAMED_MAX).map((head) => (head.step ? `${head.event} ${head.step}` : head.event));
  const more = later.length - named.length;
  return more > 0 ? `${named.join(", ")}, ${t("action.changedMore", { n: more })}` : named.join(", ");
}
