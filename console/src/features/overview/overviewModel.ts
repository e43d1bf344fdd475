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

/** The runs of a page, of which there are more if it has a cursor. */
export interface RunsPart {
  runs: RunSummary[];
  nextCursor: string | null;
}

const DAY = 24 * 60 * 60 * 1_000;
/** How long ago runs have started at least, the longest first. */
const AGES = [90 * DAY, 30 * DAY, 7 * DAY, DAY, DAY / 24];

/**
 * The runs that have started first, oldest first. The server lists the newest first: if there are more than a page of
 * them, runs that started long ago are requested, of which there may be fewer.
 *
 * `read` requests the runs that started until a time; null for all. A cursor in the result means that older ones exist.
 */
export async function readOldest(
  read: (until: number | null) => Promise<RunsPart>,
  now: number,
  count: number,
): Promise<RunsPart> {
  const all = await read(null);
  let best = all;
  if (all.nextCursor !== null) {
    for (const age of AGES) {
      const part = await read(now - age);
      const isWhole = part.nextCursor === null;
      if (part.runs.length > 0 && (isWhole || best === all)) best = part;
      // All later parts contain this one, and have more runs.
      if (!isWhole || part.runs.length >= count) break;
    }
  }
  return { runs: oldest(best.runs, count), nextCursor: best.nextCursor };
}

function oldest(runs: readonly RunSummary[], count: number): RunSummary[] {
  return [...runs].sort((a, b) => toMs(a.createdAt) - toMs(b.createdAt)).slice(0, count);
}
