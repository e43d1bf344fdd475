// What happened to a run of a state machine: transitions, votes, assignments and timers, latest first.

import { useInfiniteQuery } from "@tanstack/react-query";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Actor, HistoryEntry, Run } from "../../../api/types";
import { t, tWord } from "../../../lib/i18n";
import { type Column, Problem, Skeleton, Table, Time } from "../../../ui";
import { entriesUntil } from "../model/machineModel";

const PAGE_SIZE = 100;

/** `until`: the entry of the past on screen; null for the present. */
export function MachineHistory({ run, until }: { run: Run; until: number | null }) {
  const history = useInfiniteQuery({
    queryKey: ["history", run.id, run.version],
    queryFn: ({ pageParam, signal }) =>
      call("GET /v1/runs/{id}/history", {
        path: { id: run.id },
        query: { limit: PAGE_SIZE, ...(pageParam === "" ? {} : { cursor: pageParam }) },
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: (previous) => previous,
  });
  if (history.error) {
    return <Problem problem={toProblem(history.error)} isInline onRetry={() => void history.refetch()} />;
  }
  if (!history.data) return <Skeleton rows={3} />;
  const entries = entriesUntil(
    history.data.pages.flatMap((page) => page.entries),
    until,
  );
  return (
    <Table
      label={t("machine.history")}
      columns={COLUMNS()}
      rows={entries}
      rowId={(entry) => entry.id}
      rowLabel={(entry) => `${entry.seq} ${entry.action ?? entry.kind}`}
      onEnd={() => history.hasNextPage && !history.isFetchingNextPage && void history.fetchNextPage()}
      isNatural
    />
  );
}

const COLUMNS = (): ReadonlyArray<Column<HistoryEntry>> => [
  { id: "time", title: t("journal.time"), width: "104px", cell: (entry) => <Time at={entry.at} /> },
  {
    id: "action",
    title: t("machine.action"),
    width: "minmax(120px, 1fr)",
    cell: (entry) => <b className="cut">{entry.action ?? tWord("history", entry.kind)}</b>,
  },
  {
    id: "move",
    title: t("machine.move"),
    width: "minmax(140px, 1.4fr)",
    cell: (entry) => <span className="cut">{move(entry)}</span>,
  },
  {
    id: "by",
    title: t("machine.by"),
    width: "minmax(120px, 1fr)",
    cell: (entry) => (
      <span className="cut muted" title={entry.by.id}>
        {nameOf(entry.by)}
      </span>
    ),
  },
  {
    id: "comment",
    title: t("inbox.comment"),
    width: "minmax(140px, 2fr)",
    cell: (entry) => (
      <span className="cut" title={entry.comment ?? ""}>
        {entry.comment}
      </span>
    ),
  },
];

function move(entry: HistoryEntry): string {
  if (entry.kind === "vote") return entry.isWithdrawn ? t("machine.withdrawn") : t("machine.vote");
  return [entry.from, entry.to].filter((state) => state !== null).join(" → ");
}

function nameOf(actor: Actor): string {
  return actor.kind === "person" || actor.kind === "system" ? actor.id : `${tWord("actor", actor.kind)} ${actor.id}`;
}
