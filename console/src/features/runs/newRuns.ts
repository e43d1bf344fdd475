// Runs that began or changed after the list was loaded, as the feed of the workspace reports them.

import { type InfiniteData, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";
import type { FeedRun } from "../../api/additions";
import { useHasConsoleRoutes } from "../../api/me";
import { keys } from "../../api/queries";
import { liveSocket } from "../../api/socket";
import type { Runs } from "../../api/types";
import { mayMatch, type Term } from "./filterModel";

export interface NewRuns {
  /** How many runs began since; null if more than the feed can list. */
  count: number | null;
  clear: () => void;
}

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

export function useNewRuns(query: string, terms: readonly Term[], known: ReadonlySet<string>): NewRuns {
  const client = useQueryClient();
  const isLive = useHasConsoleRoutes();
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const [hasGap, setGap] = useState(false);
  const latest = useRef({ terms, known });
  latest.current = { terms, known };
  const clear = useCallback(() => {
    setIds(new Set());
    setGap(false);
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another query begins without new runs.
  useEffect(clear, [query]);
  useEffect(() => {
    if (!isLive) return;
    return liveSocket().followWorkspace((message) => {
      if (message.workspace === "many" || message.workspace === "gap") setGap(true);
      if (message.workspace !== "runs") return;
      const changed = new Map(message.data.map((run) => [run.id, run]));
      client.setQueriesData<InfiniteData<Runs>>(
        { queryKey: keys.runs(query) },
        (data) => data && patchRuns(data, changed),
      );
      const { terms, known } = latest.current;
      const added = message.data.filter((run) => !known.has(run.id) && mayMatch(terms, run));
      if (added.length > 0) setIds((before) => new Set([...before, ...added.map((run) => run.id)]));
    });
  }, [client, isLive, query]);
  return { count: hasGap ? null : ids.size, clear };
}
