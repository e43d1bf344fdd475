// An action on many runs: selects the runs that it can change, and counts the outcomes.

import { toProblem } from "../../api/problem";
import type { Gathered, Outcome } from "../../api/types";
import { type ControlName, canControl, type RunStatus } from "../../lib/status";

export interface ChosenRun {
  id: string;
  status: RunStatus;
}

export interface Eligible {
  /** The runs that the action can change. */
  ids: readonly string[];
  /** How many of the others have each status. */
  others: ReadonlyArray<readonly [RunStatus, number]>;
}

/** Divides runs into those that an action can change and the others. */
export function eligible(action: ControlName, runs: readonly ChosenRun[]): Eligible {
  const counts = new Map<RunStatus, number>();
  const ids: string[] = [];
  for (const { id, status } of runs) {
    if (canControl(action, status)) ids.push(id);
    else counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return { ids, others: [...counts] };
}

const PARALLEL = 6;
/** Refusals that are listed: as many as the server lists. */
const ERRORS_MAX = 20;

/** Sends an action to each run, a few at a time, and gathers the outcomes as the server does for a filter. */
export async function sendEach(ids: readonly string[], send: (id: string) => Promise<Outcome>): Promise<Gathered> {
  const result: Gathered = { matched: ids.length, accepted: 0, ignored: 0, refused: 0, errors: [], nextCursor: null };
  const rest = [...ids].reverse();
  const work = async () => {
    for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
      try {
        if ((await send(id)).outcome === "accepted") result.accepted += 1;
        else result.ignored += 1;
      } catch (error) {
        const { code, message } = toProblem(error);
        result.refused += 1;
        if (result.errors.length < ERRORS_MAX) result.errors.push({ run: id, code, message });
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return result;
}
