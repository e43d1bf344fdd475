// What the overview shows, computed from answers of the server.

import type { RunSummary, WorkflowSummary } from "../../api/types";
import { RUN_STATUSES, type RunStatus } from "../../lib/status";
import { optionalMs, toMs } from "../../lib/time";

export type Counts = Record<RunStatus, number>;

/** The runs per status: as the feed says, else the sums of the workflows. */
export function countsOf(workflows: readonly WorkflowSummary[], live: Partial<Counts> | null): Counts {
  const counts = Object.fromEntries(RUN_STATUSES.map((status) => [status, 0])) as Counts;
  for (const status of RUN_STATUSES) {
    counts[status] = live?.[status] ?? workflows.reduce((sum, workflow) => sum + workflow[status], 0);
  }
  return counts;
}

export interface FailureGroup {
  code: string;
  count: number;
  latest: RunSummary;
  workflows: readonly string[];
}

/** Failed runs by the code of their error, the most frequent first. */
export function failuresByCode(runs: readonly RunSummary[]): FailureGroup[] {
  const groups = new Map<string, { count: number; latest: RunSummary; workflows: Set<string> }>();
  for (const run of runs) {
    const code = run.error?.code ?? "";
    const group = groups.get(code);
    if (group) {
      group.count += 1;
      group.workflows.add(run.workflow);
      if (endOf(run) > endOf(group.latest)) group.latest = run;
    } else {
      groups.set(code, { count: 1, latest: run, workflows: new Set([run.workflow]) });
    }
  }
  return [...groups]
    .map(([code, group]) => ({ code, ...group, workflows: [...group.workflows] }))
    .sort((a, b) => b.count - a.count || endOf(b.latest) - endOf(a.latest));
}

function endOf(run: RunSummary): number {
  return optionalMs(run.endedAt) ?? 0;
}

/** The runs that have waited longest. */
export function oldest(runs: readonly RunSummary[], count: number): RunSummary[] {
  return [...runs].sort((a, b) => toMs(a.createdAt) - toMs(b.createdAt)).slice(0, count);
}
