// The journal: every entry, with a filter; an entry opens its data.

import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Head } from "../../../api/types";
import { formatBytes } from "../../../lib/bytes";
import { t } from "../../../lib/i18n";
import { formatAbsolute, formatClock, toMs } from "../../../lib/time";
import { Button, type Column, Drawer, Empty, JsonTree, Problem, Select, Skeleton, Table, TextField } from "../../../ui";
import { useRunPart, useRunStore } from "../runContext";

export function Journal({ onAt }: { onAt: (seq: number) => void }) {
  const store = useRunStore();
  const last = useRunPart((view) => view.last);
  const at = useRunPart((view) => view.at);
  const [text, setText] = useState("");
  const [event, setEvent] = useState("any");
  const [open, setOpen] = useState<Head | null>(null);
  const needle = useDeferredValue(text).trim().toLowerCase();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list of heads grows in place; its end says so.
  const events = useMemo(() => [...new Set(store.model.all().map((head) => head.event))].sort(), [store, last]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list of heads grows in place; its end says so.
  const rows = useMemo(() => {
    return store.model
      .all()
      .filter((head) => (event === "any" || head.event === event) && (needle === "" || matches(head, needle)))
      .filter((head) => at === null || head.seq <= at);
  }, [store, last, event, needle, at]);
  return (
    <div className="run-view">
      <div className="run-bar">
        <div className="run-search">
          <TextField
            label={t("journal.filter")}
            isLabelHidden
            icon="search"
            type="search"
            placeholder={t("journal.filter")}
            value={text}
            onChange={setText}
          />
        </div>
        <Select
          label={t("journal.event")}
          isLabelHidden
          options={[{ id: "any", label: t("journal.anyEvent") }, ...events.map((name) => ({ id: name, label: name }))]}
          value={event}
          onChange={setEvent}
        />
        <span className="faint">{t("journal.count", { n: rows.length })}</span>
      </div>
      {rows.length === 0 ? (
        <Empty icon="filter" title={t("journal.none")} />
      ) : (
        <Table
          label={t("run.journal")}
          columns={COLUMNS()}
          rows={rows}
          rowId={(head) => String(head.seq)}
          rowLabel={(head) => `${head.seq} ${head.event}`}
          onOpen={setOpen}
        />
      )}
      <Drawer title={open ? `${open.seq} · ${open.event}` : ""} isOpen={open !== null} onClose={() => setOpen(null)}>
        {open && <EntryData head={open} onAt={onAt} />}
      </Drawer>
    </div>
  );
}

function matches(head: Head, needle: string): boolean {
  const words = [head.step, head.event, head.signal, head.error?.code, head.error?.message, head.reason];
  return words.some((word) => word?.toLowerCase().includes(needle));
}

const COLUMNS = (): ReadonlyArray<Column<Head>> => [
  {
    id: "seq",
    title: "#",
    width: "56px",
    align: "end",
    cell: (head) => <span className="mono faint">{head.seq}</span>,
  },
  {
    id: "at",
    title: t("journal.time"),
    width: "104px",
    cell: (head) => (
      <time className="mono muted" dateTime={head.at} title={formatAbsolute(toMs(head.at))}>
        {formatClock(toMs(head.at), true)}
      </time>
    ),
  },
  {
    id: "event",
    title: t("journal.event"),
    width: "160px",
    cell: (head) => <b className={`journal-event ${tone(head)}`}>{head.event}</b>,
  },
  { id: "step", title: t("journal.step"), width: "minmax(120px, 1fr)", cell: (head) => <StepCell head={head} /> },
  { id: "detail", title: t("journal.detail"), width: "minmax(160px, 2fr)", cell: (head) => <Detail head={head} /> },
  {
    id: "bytes",
    title: t("journal.size"),
    width: "80px",
    align: "end",
    cell: (head) => (head.bytes ? <span className="faint">{formatBytes(head.bytes)}</span> : null),
  },
];

function tone(head: Head): string {
  if (/Failed|Lost/.test(head.event)) return "is-failed";
  if (/Completed|Resolved/.test(head.event)) return "is-completed";
  if (/Paused|Wait|Timer/.test(head.event)) return "is-waiting";
  if (/Started|Dispatched|Resumed|Retried/.test(head.event)) return "is-running";
  return "is-cancelled";
}

function StepCell({ head }: { head: Head }) {
  if (!head.step) return null;
  return (
    <span className="mono" title={head.step}>
      {head.step}
      {head.attempt && head.attempt > 1 ? <span className="faint"> #{head.attempt}</span> : null}
    </span>
  );
}

function Detail({ head }: { head: Head }) {
  const parts = [
    head.error && `${head.error.code}: ${head.error.message}`,
    head.dispatch,
    head.signal && t("journal.signal", { name: head.signal }),
    head.handle && `→ ${head.handle}`,
    head.due && t("journal.due", { time: formatClock(toMs(head.due)) }),
    head.child && t("journal.child", { id: head.child }),
    head.turn && t("journal.turn", { n: String(head.turn) }),
    head.reason,
    head.logLines ? t("journal.logLines", { n: head.logLines }) : null,
  ].filter(Boolean);
  const text = parts.join(" · ");
  return (
    <span className={head.error ? "journal-error" : "muted"} title={text}>
      {text}
    </span>
  );
}

function EntryData({ head, onAt }: { head: Head; onAt: (seq: number) => void }) {
  const { id } = useRunStore();
  const entry = useQuery({
    queryKey: ["entry", id, head.seq],
    queryFn: ({ signal }) =>
      call("GET /v1/runs/{id}/journal", { path: { id }, query: { after: head.seq - 1, limit: 1 }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (entry.error) return <Problem problem={toProblem(entry.error)} isInline />;
  if (!entry.data) return <Skeleton rows={4} />;
  const found = entry.data.entries[0];
  return (
    <>
      <p className="muted">{formatAbsolute(toMs(head.at))}</p>
      <Button size="small" icon="clock" onPress={() => onAt(head.seq)}>
        {t("journal.showHere")}
      </Button>
      <JsonTree label={head.event} value={found ?? null} fileName={`entry-${head.seq}.json`} openDepth={3} />
    </>
  );
}
