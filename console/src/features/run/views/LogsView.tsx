// The lines that the steps of a run have written.

import { useInfiniteQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import { t } from "../../../lib/i18n";
import { formatAbsolute, formatClock, toMs } from "../../../lib/time";
import { Button, CopyButton, Empty, Problem, Segmented, Skeleton, TextField } from "../../../ui";
import { useRunPart, useRunStore } from "../runContext";
import { LogText } from "./LogText";

type Order = "oldest" | "newest";
/** Lines that are drawn. More are found with the search. */
const LINES_MAX = 2_000;

export function LogsView({ step }: { step: string | null }) {
  const { id } = useRunStore();
  const seq = useRunPart((view) => view.fold.run.seq);
  const at = useRunPart((view) => view.at);
  const [text, setText] = useState("");
  const [order, setOrder] = useState<Order>("oldest");
  const needle = useDeferredValue(text).trim().toLowerCase();
  const last = useRunPart((view) => view.last);
  const logs = useInfiniteQuery({
    queryKey: ["logs", id, step, last],
    queryFn: ({ pageParam, signal }) =>
      call("GET /v1/runs/{id}/logs", {
        path: { id },
        query: { step: step ?? undefined, cursor: pageParam || undefined },
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: (before) => before,
  });
  const lines = useMemo(() => {
    const all = logs.data?.pages.flatMap((page) => page.logs) ?? [];
    const found = all.filter(
      (line) => (at === null || line.seq <= seq) && (needle === "" || line.line.toLowerCase().includes(needle)),
    );
    return order === "oldest" ? found : found.reverse();
  }, [logs.data, at, seq, needle, order]);
  if (logs.isLoadingError) return <Problem problem={toProblem(logs.error)} onRetry={() => void logs.refetch()} />;
  return (
    <div className="run-view">
      <div className="run-bar">
        <div className="run-search">
          <TextField
            label={t("logs.search")}
            isLabelHidden
            icon="search"
            type="search"
            placeholder={t("logs.search")}
            value={text}
            onChange={setText}
          />
        </div>
        <Segmented
          label={t("logs.order")}
          options={[
            { id: "oldest", label: t("logs.oldest") },
            { id: "newest", label: t("logs.newest") },
          ]}
          value={order}
          onChange={setOrder}
        />
        <span className="faint">{t("logs.count", { n: lines.length })}</span>
        <span className="grow" />
        <CopyButton text={() => lines.map((line) => line.line).join("\n")} label={t("logs.copy")} />
      </div>
      {!logs.data ? (
        <Skeleton />
      ) : lines.length === 0 ? (
        <Empty icon="runs" title={t("logs.none")}>
          {t("logs.noneText")}
        </Empty>
      ) : (
        <ol className="logs">
          {lines.slice(0, LINES_MAX).map((line, index) => (
            <li key={index}>
              <time dateTime={line.at} title={formatAbsolute(toMs(line.at))}>
                {formatClock(toMs(line.at), true)}
              </time>
              <span className="logs-step cut" title={`${line.step} #${line.attempt}`}>
                {line.step}
                {line.attempt > 1 && ` #${line.attempt}`}
              </span>
              <LogText text={line.line} />
            </li>
          ))}
        </ol>
      )}
      {logs.hasNextPage && (
        <div className="run-bar">
          <Button onPress={() => void logs.fetchNextPage()} isPending={logs.isFetchingNextPage}>
            {t("logs.more")}
          </Button>
        </div>
      )}
    </div>
  );
}
