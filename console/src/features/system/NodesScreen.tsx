// The servers that share the database.

import { toProblem } from "../../api/problem";
import { useNodes } from "../../api/queries";
import type { Node } from "../../api/types";
import { t } from "../../lib/i18n";
import { formatDuration } from "../../lib/time";
import { type Column, Copyable, Page, Problem, Skeleton, Table, Tag, Time } from "../../ui";
import "./system.css";

function state(node: Node): "failed" | "waiting" | "completed" {
  return node.isFenced ? "failed" : node.isExpired ? "waiting" : "completed";
}

const columns = (): ReadonlyArray<Column<Node>> => [
  {
    id: "state",
    title: t("nodes.state"),
    width: "110px",
    cell: (node) => (
      <span className={`row is-${state(node)} node-state`}>
        <i />
        {node.isFenced ? t("nodes.fenced") : node.isExpired ? t("nodes.expired") : t("nodes.alive")}
      </span>
    ),
  },
  { id: "id", title: t("nodes.id"), width: "minmax(240px, 1fr)", cell: (node) => <Copyable text={node.id} isMono /> },
  { id: "self", title: "", width: "110px", cell: (node) => node.isSelf && <Tag>{t("nodes.self")}</Tag> },
  {
    id: "address",
    title: t("nodes.address"),
    width: "minmax(120px, 1fr)",
    cell: (node) => <span className="mono muted">{node.address ?? "–"}</span>,
  },
  { id: "runs", title: t("nodes.runs"), width: "96px", align: "end", cell: (node) => node.runs },
  { id: "skew", title: t("nodes.skew"), width: "110px", align: "end", cell: (node) => <Skew ms={node.skewMs} /> },
  { id: "lease", title: t("nodes.lease"), width: "120px", cell: (node) => <Time at={node.leaseUntil} /> },
];

/** More than this is a fault of the machine; the server logs it too. */
const SKEW_MAX = 1_000;

/** By how much the clock of the node's machine is ahead. Only the node that answers knows its own, if it is not older. */
function Skew({ ms }: { ms: number | null | undefined }) {
  if (typeof ms !== "number") return <span className="faint">–</span>;
  const text = `${ms < 0 ? "−" : "+"}${formatDuration(Math.abs(ms))}`;
  return <span className={Math.abs(ms) > SKEW_MAX ? "is-failed node-skew" : "muted"}>{text}</span>;
}

export function NodesScreen() {
  const nodes = useNodes();
  return (
    <Page title={t("nav.nodes")}>
      {nodes.isLoadingError ? (
        <Problem problem={toProblem(nodes.error)} onRetry={() => void nodes.refetch()} />
      ) : nodes.data ? (
        <Table
          label={t("nav.nodes")}
          columns={columns()}
          rows={nodes.data.nodes}
          rowId={(node) => node.id}
          rowLabel={(node) => node.id}
        />
      ) : (
        <Skeleton />
      )}
    </Page>
  );
}
