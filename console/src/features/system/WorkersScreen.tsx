// The connected workers.

import { toProblem } from "../../api/problem";
import { useWorkers } from "../../api/queries";
import type { Worker } from "../../api/types";
import { commands } from "../../lib/commands";
import { t } from "../../lib/i18n";
import { shortId } from "../../lib/id";
import { type Column, Empty, Page, Problem, Skeleton, Table, Tag, Time } from "../../ui";
import "./system.css";

const columns = (): ReadonlyArray<Column<Worker>> => [
  {
    id: "worker",
    title: t("workers.name"),
    width: "minmax(140px, 1fr)",
    cell: (one) => (
      <b className="runs-name" title={one.worker}>
        {one.worker}
      </b>
    ),
  },
  {
    id: "workflows",
    title: t("workers.workflows"),
    width: "minmax(160px, 2fr)",
    cell: (one) => (
      <span className="row" style={{ gap: 4 }}>
        {one.workflows.map((workflow) => (
          <Tag key={`${workflow.name}@${workflow.version}`}>{`${workflow.name} v${workflow.version}`}</Tag>
        ))}
      </span>
    ),
  },
  {
    id: "load",
    title: t("workers.load"),
    width: "140px",
    cell: (one) => (
      <span className="row">
        <span className="meter" aria-hidden="true">
          <i style={{ width: `${Math.min(100, (one.running / Math.max(1, one.capacity)) * 100)}%` }} />
        </span>
        <span className="muted">
          {one.running} / {one.capacity}
        </span>
      </span>
    ),
  },
  { id: "sdk", title: t("workers.sdk"), width: "140px", cell: (one) => <span className="muted">{one.sdk}</span> },
  {
    id: "node",
    title: t("workers.node"),
    width: "118px",
    cell: (one) => (
      <span className="mono muted" title={one.node}>
        {shortId(one.node)}
      </span>
    ),
  },
  { id: "connected", title: t("workers.connected"), width: "104px", cell: (one) => <Time at={one.connectedAt} /> },
  { id: "seen", title: t("workers.seen"), width: "104px", cell: (one) => <Time at={one.lastSeen} /> },
];

export function WorkersScreen() {
  const workers = useWorkers();
  const rows = workers.data?.workers ?? [];
  return (
    <Page title={t("nav.workers")}>
      {(workers.data?.silentNodes.length ?? 0) > 0 && (
        <div className="ui-banner" role="status">
          {t("workers.silent", { nodes: workers.data?.silentNodes.map(shortId).join(", ") ?? "" })}
        </div>
      )}
      {workers.isLoadingError ? (
        <Problem problem={toProblem(workers.error)} onRetry={() => void workers.refetch()} />
      ) : workers.isPending ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <Empty icon="worker" title={t("workers.none")} command={commands.workerKey}>
          {t("workers.noneText")}
        </Empty>
      ) : (
        <Table
          label={t("nav.workers")}
          columns={columns()}
          rows={rows}
          rowId={(one) => `${one.node}/${one.session}`}
          rowLabel={(one) => one.worker}
        />
      )}
    </Page>
  );
}
