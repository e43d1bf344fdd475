// The last failure of each workflow, from the newest failed runs of the workspace.

import type { RunSummary } from "../../api/types";
import { toMs } from "../../lib/time";

type FailedRun = Pick<RunSummary, "id" | "workflow" | "error" | "createdAt" | "endedAt">;

export interface LastFailure {
  run: string;
  code: string;
  at: string;
}

/** By workflow. A workflow whose failed runs are all older than these is missing. */
export function lastFailures(runs: readonly FailedRun[]): ReadonlyMap<string, LastFailure> {
  const last = new Map<string, LastFailure>();
  for (const { id, workflow, error, createdAt, endedAt } of runs) {
    const at = endedAt ?? createdAt;
    const known = last.get(workflow);
    if (known && toMs(known.at) >= toMs(at)) continue;
    last.set(workflow, { run: id, code: error?.code ?? "", at });
  }
  return last;
}
