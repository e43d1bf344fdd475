// The workflows of the workspace, with their runs per status.

import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import { POLL_MIN, useWorkflows } from "../../api/queries";
import type { WorkflowSummary } from "../../api/types";
import { commands } from "../../lib/commands";
import { formatNumber, t, tWord } from "../../lib/i18n";
import { RUN_STATUSES, type RunStatus } from "../../lib/status";
import { paths } from "../../lib/url";
import { type Column, Empty, Link, Page, Problem, Skeleton, Table, Tag, TextField, Time } from "../../ui";
import { type LastFailure, lastFailures } from "./lastFailures";
import "./workflows.css";

const count = (status: RunStatus): Column<WorkflowSummary> => ({
  id: status,
  title: tWord("status", status),
  width: "72px",
  align: "end",
  cell: (workflow) =>
    workflow[status] === 0 ? (
      <span className="faint">0</span>
    ) : (
      <Link href={paths.runs({ workflow: workflow.name, status })} className={`workflow-count is-${status}`}>
        {formatNumber(workflow[status])}
      </Link>
    ),
});

const FAILURES_MAX = 200;

/** The last failure of each workflow, as far as the newest failed runs of the workspace tell. */
function useLastFailures(): ReadonlyMap<string, LastFailure> {
  const query = new URLSearchParams({ status: "failed", limit: String(FAILURES_MAX) });
  const failed = useQuery({
    queryKey: ["runs", "failures", FAILURES_MAX],
    queryFn: ({ signal }) => call("GET /v1/runs", { query, signal }),
    refetchInterval: POLL_MIN,
  });
  return useMemo(() => lastFailures(failed.data?.runs ?? []), [failed.data]);
}

function Failure({ workflow, last }: { workflow: WorkflowSummary; last: LastFailure | undefined }) {
  if (workflow.failed === 0) return <span className="faint">–</span>;
  // It is older than the newest failed runs.
  if (!last)
    return <Link href={paths.runs({ workflow: workflow.name, status: "failed" })}>{t("workflows.earlier")}</Link>;
  return (
    <span className="row workflow-failure">
      <Time at={last.at} />
      <Link href={paths.run(last.run)} title={last.code}>
        <span className="cut">{last.code}</span>
      </Link>
    </span>
  );
}

const columns = (failures: ReadonlyMap<string, LastFailure>): ReadonlyArray<Column<WorkflowSummary>> => [
  {
    id: "name",
    title: t("workflows.name"),
    width: "minmax(140px, 2fr)",
    cell: (workflow) => (
      <Link href={paths.workflow(workflow.name)} isQuiet title={workflow.name}>
        <b className="runs-name">{workflow.name}</b>
      </Link>
    ),
  },
  { id: "style", title: t("workflows.style"), width: "84px", cell: (workflow) => <Tag>{workflow.style}</Tag> },
  {
    id: "version",
    title: t("workflows.version"),
    width: "76px",
    cell: (workflow) => (
      <span className="muted">{workflow.activeVersion === null ? "–" : `v${workflow.activeVersion}`}</span>
    ),
  },
  {
    id: "updated",
    title: t("workflows.updated"),
    width: "96px",
    cell: (workflow) => <Time at={workflow.updatedAt} />,
  },
  ...RUN_STATUSES.filter((status) => status !== "pending").map(count),
  {
    id: "failure",
    title: t("workflows.lastFailure"),
    width: "minmax(160px, 1fr)",
    cell: (workflow) => <Failure workflow={workflow} last={failures.get(workflow.name)} />,
  },
];

export function WorkflowsList() {
  const workflows = useWorkflows();
  const failures = useLastFailures();
  const [, navigate] = useLocation();
  const [text, setText] = useState("");
  const needle = useDeferredValue(text).trim().toLowerCase();
  const rows = useMemo(
    () => (workflows.data ?? []).filter((one) => one.name.toLowerCase().includes(needle)),
    [workflows.data, needle],
  );
  return (
    <Page
      title={t("nav.workflows")}
      actions={
        <TextField
          label={t("workflows.search")}
          isLabelHidden
          icon="search"
          type="search"
          placeholder={t("workflows.search")}
          value={text}
          onChange={setText}
        />
      }
    >
      {workflows.isLoadingError ? (
        <Problem problem={toProblem(workflows.error)} onRetry={() => void workflows.refetch()} />
      ) : workflows.isPending ? (
        <Skeleton rows={12} />
      ) : rows.length === 0 ? (
        <Empty
          icon="workflow"
          title={needle === "" ? t("workflows.none") : t("workflows.noMatch")}
          command={needle === "" ? commands.import : undefined}
        >
          {needle === "" ? t("workflows.noneText") : undefined}
        </Empty>
      ) : (
        <Table
          label={t("nav.workflows")}
          columns={columns(failures)}
          rows={rows}
          rowId={(workflow) => workflow.name}
          rowLabel={(workflow) => workflow.name}
          onOpen={(workflow) => navigate(paths.workflow(workflow.name))}
        />
      )}
    </Page>
  );
}
