// Runs that began or changed after the list was loaded, as the feed of the workspace reports them.
//
// After a gap of the feed the statuses are requested again. Rows on screen keep their places in either case.

import { type InfiniteData, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import { call } from "../../api/client";
import { keys, POLL_MIN } from "../../api/queries";
import { liveSocket } from "../../api/socket";
import type { FeedRun } from "../../api/socketMessages";
import type { RunSummary, Runs } from "../../api/types";
import { mayMatch, type Term, termsToQuery } from "./filterModel";

export interface NewRuns {
  /** How many runs began since; null if more than are counted. */
  count: number | null;
  clear: () => void;
}

const PAGE_SIZE = 500;
const PAGES_MAX = 20;
/** Filters that a run may cease to match. */
const CHANGING: readonly string[] = ["status", "state", "errorCode"];

/** Applies changed statuses to the rows on screen. Rows keep their places. */
export function patchRuns(data: InfiniteData<Runs>, changed: ReadonlyMap<string, FeedRun>): InfiniteData<Runs> {
  return {
    ...data,
    pages: data.pages.map((page) => {
      if (!page.runs.some((run) => changed.has(run.id))) return page;
      const runs = page.runs.map((run) => {
        const change = changed.get(run.id);
        return change ? { ...run, status: change.status, endedAt: change.endedAt } : run;
      });
      return { ...page, runs };
    }),
  };
}

/** The runs that the list lacks. An older run is not new, unless it has only now begun to match the filter. */
export function runsToAnnounce(
  changed: readonly FeedRun[],
  rows: readonly FeedRun[],
  terms: readonly Term[],
): FeedRun[] {
  const known = new Set(rows.map((run) => run.id));
  const newest = rows[0]?.createdAt ?? "";
  const mayBegin = terms.some((term) => CHANGING.includes(term.name));
  return changed.filter((run) => !known.has(run.id) && (mayBegin || run.createdAt > newest) && mayMatch(terms, run));
}

/** Reads the runs of the list again, down to its oldest row, whether they still match or not. */
async function readAgain(terms: readonly Term[], oldest: string, signal: AbortSignal): Promise<RunSummary[]> {
  const params = new URLSearchParams(
    termsToQuery(
      terms.filter((term) => !CHANGING.includes(term.name)),
      Date.now(),
    ),
  );
  params.set("limit", String(PAGE_SIZE));
  const found: RunSummary[] = [];
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await call("GET /v1/runs", { query: params, signal });
    found.push(...answer.runs);
    const last = answer.runs.at(-1);
    if (!answer.nextCursor || !last || last.createdAt < oldest) break;
    params.set("cursor", answer.nextCursor);
  }
  return found;
}

export function useNewRuns(query: string, terms: readonly Term[], rows: readonly RunSummary[]): NewRuns {
  const client = useQueryClient();
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const latest = useRef({ terms, rows });
  latest.current = { terms, rows };
  const clear = useCallback(() => setIds(new Set()), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another query begins without new runs.
  useEffect(clear, [query]);
  useEffect(() => {
    const ended = new AbortController();
    let readAt = Number.NEGATIVE_INFINITY;
    let pause: ReturnType<typeof setTimeout> | undefined;
    const apply = (runs: readonly FeedRun[]) => {
      const changed = new Map(runs.map((run) => [run.id, run]));
      client.setQueriesData<InfiniteData<Runs>>(
        { queryKey: keys.runs(query) },
        (data) => data && patchRuns(data, changed),
      );
      const added = runsToAnnounce(runs, latest.current.rows, latest.current.terms);
      if (added.length > 0) setIds((before) => new Set([...before, ...added.map((run) => run.id)]));
    };
    const read = async () => {
      pause = undefined;
      readAt = Date.now();
      const { terms, rows } = latest.current;
      const oldest = rows.at(-1)?.createdAt;
      // A list that is not loaded yet has no gap.
      if (oldest === undefined) return;
      try {
        apply(await readAgain(terms, oldest, ended.signal));
      } catch {
        // The next gap reads again; the banner says that the server does not reply.
      }
    };
    const leave = liveSocket().followWorkspace((message) => {
      if (message.workspace === "runs") apply(message.data);
      else if (message.workspace !== "counts") pause ??= setTimeout(read, Math.max(0, readAt + POLL_MIN - Date.now()));
    });
    return () => {
      leave();
      clearTimeout(pause);
      ended.abort();
    };
  }, [client, query]);
  return { count: ids.size > PAGE_SIZE ? null : ids.size, clear };
}
