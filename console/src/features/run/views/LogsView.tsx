// The lines that the steps of a run have written.

import { type InfiniteData, useInfiniteQuery, useIsFetching } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Logs } from "../../../api/types";
import { useThrottled } from "../../../lib/throttle";
import { Problem, Skeleton } from "../../../ui";
import { REFRESH_EVERY, useRunPart, useRunStore } from "../runContext";
import { LogLines, type ShownLine } from "./LogLines";

type LogPages = InfiniteData<Logs, string>;

/** The pages that have been loaded. While the run is live, the last one is requested again when the journal has grown. */
function useLogs(id: string) {
  const queryKey = ["logs", id];
  const last = useRunPart((view) => view.last);
  const requested = useThrottled(last, REFRESH_EVERY, useIsFetching({ queryKey }) > 0);
  const logs = useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam, signal, client }) => {
      const known = client.getQueryData<LogPages>(queryKey);
      const page = known?.pages[known.pageParams.indexOf(pageParam)];
      // A journal only grows, so a page that has a next one does not change.
      if (page?.nextCursor) return page;
      return call("GET /v1/runs/{id}/logs", { path: { id }, query: { cursor: pageParam || undefined }, signal });
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    staleTime: 0,
  });
  const { refetch } = logs;
  const shown = useRef(requested);
  useEffect(() => {
    if (shown.current === requested) return;
    shown.current = requested;
    void refetch();
  }, [requested, refetch]);
  return logs;
}

export function LogsView() {
  const { id } = useRunStore();
  const seq = useRunPart((view) => view.fold.run.seq);
  const at = useRunPart((view) => view.at);
  const logs = useLogs(id);
  const until = at === null ? null : seq;
  const lines = useMemo(() => {
    const all = logs.data?.pages.flatMap((page) => page.logs) ?? [];
    return all
      .filter((line) => until === null || line.seq <= until)
      .map(({ line, ...source }): ShownLine => ({ line, source }));
  }, [logs.data, until]);
  const more = logs.hasNextPage ? { load: () => void logs.fetchNextPage(), isLoading: logs.isFetchingNextPage } : null;
  if (logs.isLoadingError) return <Problem problem={toProblem(logs.error)} onRetry={() => void logs.refetch()} />;
  return <div className="run-view">{logs.data ? <LogLines lines={lines} more={more} /> : <Skeleton />}</div>;
}
