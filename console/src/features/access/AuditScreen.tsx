// The audit log, with its filters.

import { useMemo } from "react";
import { call } from "../../api/client";
import type { AuditEntry } from "../../api/types";
import { t } from "../../lib/i18n";
import { summarize } from "../../lib/json";
import { useSearchState } from "../../lib/url";
import { type Column, DateTime, TextField, Time } from "../../ui";
import { ListScreen } from "./ListScreen";
import { useList } from "./useList";

const columns = (): ReadonlyArray<Column<AuditEntry>> => [
  { id: "at", title: t("audit.time"), width: "112px", cell: (entry) => <Time at={entry.at} /> },
  {
    id: "actor",
    title: t("audit.actor"),
    width: "minmax(120px, 1fr)",
    cell: (entry) => <span title={entry.actor}>{actorName(entry)}</span>,
  },
  {
    id: "action",
    title: t("audit.action"),
    width: "minmax(160px, 1.2fr)",
    cell: (entry) => (
      <b className="runs-name" title={entry.action}>
        {entry.action}
      </b>
    ),
  },
  {
    id: "target",
    title: t("audit.target"),
    width: "minmax(160px, 1.6fr)",
    cell: (entry) => (
      <span className="mono muted" title={entry.target}>
        {entry.target}
      </span>
    ),
  },
  {
    id: "details",
    title: t("audit.details"),
    width: "minmax(100px, 1fr)",
    cell: (entry) => (
      <span className="faint" translate="no" title={summarize(entry.details, 1_000)}>
        {summarize(entry.details)}
      </span>
    ),
  },
];

/** The name of the key, which the details contain; else the actor as recorded. */
function actorName(entry: AuditEntry): string {
  return typeof entry.details.keyName === "string" ? entry.details.keyName : entry.actor;
}

export function AuditScreen() {
  const { params, set } = useSearchState();
  const filter = useMemo(() => {
    const pick = (name: string) => params.get(name) ?? undefined;
    return { actor: pick("actor"), action: pick("action"), since: pick("since"), until: pick("until") };
  }, [params]);
  const list = useList(
    ["audit", filter],
    (cursor, signal) => call("GET /v1/audit", { query: { ...filter, cursor, limit: 100 }, signal }),
    (page) => page.entries,
  );
  return (
    <ListScreen
      title={t("nav.audit")}
      icon="audit"
      none={{ title: t("audit.none") }}
      list={list}
      columns={columns()}
      rowId={(entry) => entry.id}
      rowLabel={(entry) => `${entry.action} ${entry.target}`}
      filter={
        <div className="access-filter">
          <TextField
            label={t("audit.actor")}
            value={filter.actor ?? ""}
            onChange={(actor) => set({ actor })}
            isCode
            placeholder="key:…"
          />
          <TextField
            label={t("audit.action")}
            value={filter.action ?? ""}
            onChange={(action) => set({ action })}
            isCode
            placeholder="POST /v1/runs/{id}/cancel"
          />
          <DateTime label={t("filter.since")} value={filter.since ?? null} onChange={(since) => set({ since })} />
          <DateTime label={t("filter.until")} value={filter.until ?? null} onChange={(until) => set({ until })} />
        </div>
      }
    />
  );
}
