// How far a quota is used.

import type { Quota } from "../../api/types";

/** From this part of a quota on, the page warns. */
const WARNING_PERCENT = 90;

export type QuotaLevel = "free" | "near" | "reached";

export interface QuotaUse {
  /** Rounded down, so that 100 is shown only if nothing is free. */
  percent: number;
  level: QuotaLevel;
}

/** On several nodes, a workspace may have more than its quota allows. */
export function readUse({ used, max }: Pick<Quota, "used" | "max">): QuotaUse {
  const percent = max === 0 ? 100 : Math.floor((used * 100) / max);
  return { percent, level: percent >= 100 ? "reached" : percent >= WARNING_PERCENT ? "near" : "free" };
}
