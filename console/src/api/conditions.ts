// The conditions under which a run applies a request: once per key, and only at the version that the person sees.

import { call } from "./client";
import { toProblem } from "./problem";
import type { Run } from "./types";

export interface Conditions {
  key: string;
  /** The version of the run on screen; null if the request does not depend on it. */
  version: number | null;
}

export function conditionHeaders({ key, version }: Conditions): Record<string, string> {
  return { "idempotency-key": key, ...(version === null ? {} : { "if-match": `"${version}"` }) };
}

/** How often a request is sent again because the run has entries that do not concern it. */
const REPEATS_MAX = 3;

/**
 * Sends a request to the version of the run that the person sees. Steps of a busy run add entries every few
 * milliseconds. After a conflict, `isUnchanged` compares the part of the run that the request concerns. If it is unchanged,
 * the request is repeated with the present version, and finally without a version. Otherwise the conflict is reported.
 */
export async function sendAtVersion<Answer>(
  run: string,
  conditions: Conditions,
  send: (headers: Record<string, string>) => Promise<Answer>,
  isUnchanged: (run: Run) => boolean,
): Promise<Answer> {
  let { version } = conditions;
  for (let repeats = 1; ; repeats += 1) {
    try {
      return await send(conditionHeaders({ ...conditions, version }));
    } catch (error) {
      if (toProblem(error).code !== "CONCURRENCY_ERROR") throw error;
      const now = await call("GET /v1/runs/{id}", { path: { id: run } }).catch(() => null);
      if (now === null || !isUnchanged(now)) throw error;
      version = repeats < REPEATS_MAX ? now.version : null;
    }
  }
}
