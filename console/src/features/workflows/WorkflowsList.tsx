// The workflows of the workspace, with their runs per status.

import { useDeferredValue, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { toProblem } from "../../api/problem";
import { useWorkflows } from "../../api/queries";
import type { WorkflowSummary } from "../../api/types";
import { formatNumber, t, tWord } from "../../lib/i18n";
import { RUN_STATUSES, type RunStatus } from "../../lib/status";
import { paths } from "../../lib/url";
import { type Column, Empty, Link, Page, Problem, Skeleton, Table, Tag, TextField, Time } from "../../ui";
import "./workflows.css";

const count = (status: RunStatus): Column<WorkflowSummary> => ({
  id: status,
  title: tWord("status", status),
  width: "76px",
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

const columns = (): ReadonlyArray<Column<WorkflowSummary>> => [
  {
    id: "name",
    title: t("workflows.name"),
    width: "minmax(180px, 2fr)",
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
    width: "112px",
    cell: (workflow) => <Time at={workflow.updatedAt} />,
  },
  ...RUN_STATUSES.filter((status) => status !== "pending").map(count),
];

export function WorkflowsList() {
  const workflows = useWorkflows();
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
          command={needle === "" ? "everstep import hello.yaml" : undefined}
        >
          {needle === "" ? t("workflows.noneText") : undefined}
        </Empty>
      ) : (
        <Table
          label={t("nav.workflows")}
          columns={columns()}
          rows={rows}
          rowId={(workflow) => workflow.name}
          rowLabel={(workflow) => workflow.name}
          onOpen={(workflow) => navigate(paths.workflow(workflow.name))}
        />
      )}
    </Page>
  );
}
