// One workflow: its graph, its versions, its runs, its figures.

import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/client";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { keys, useRuns, useWorkflow } from "../../api/queries";
import type { RunSummary, Version, Workflow } from "../../api/types";
import { downloadText } from "../../lib/download";
import { t } from "../../lib/i18n";
import { shortId } from "../../lib/id";
import { pretty } from "../../lib/json";
import { paths, useSearchState, withQuery } from "../../lib/url";
import {
  Button,
  type Column,
  Confirm,
  Copyable,
  Duration,
  Empty,
  JsonTree,
  Link,
  Menu,
  Page,
  Problem,
  Skeleton,
  Status,
  showToast,
  Table,
  Tabs,
  Tag,
  Time,
} from "../../ui";
import { StartDialog } from "./StartDialog";
import "./workflows.css";

const VIEWS = ["graph", "runs", "versions", "figures", "definition"] as const;
type ViewName = (typeof VIEWS)[number];

interface WorkflowScreenProps {
  name: string;
  /** Draws the graph of a definition. */
  graph: (workflow: Workflow) => ReactNode;
  figures: ReactNode;
}

export function WorkflowScreen({ name, graph, figures }: WorkflowScreenProps) {
  const { params, set } = useSearchState();
  const version = params.get("version") === null ? null : Number(params.get("version"));
  const workflow = useWorkflow(name, version);
  const [open, setOpen] = useState<"start" | "delete" | null>(null);
  const canStart = useCan("workflow:manage");
  const canPublish = useCan("workflow:publish");
  const forbidden = (permission: string) => t("problem.forbidden", { permission });
  // Data that is shown stays while the server does not reply; the banner says so.
  if (workflow.isLoadingError) {
    return (
      <Page title={name} parent={{ label: t("nav.workflows"), href: "/workflows" }}>
        <Problem problem={toProblem(workflow.error)} onRetry={() => void workflow.refetch()} />
      </Page>
    );
  }
  if (!workflow.data) return <Skeleton rows={14} />;
  const { data } = workflow;
  const view: ViewName = VIEWS.find((one) => one === params.get("view")) ?? "graph";
  const content = () => {
    switch (view) {
      case "graph":
        return graph(data);
      case "runs":
        return <RecentRuns workflow={name} />;
      case "versions":
        return (
          <Versions
            name={name}
            current={data.version}
            onShow={(next) => set({ version: String(next), view: null }, "push")}
          />
        );
      case "figures":
        return <div className="workflow-figures">{figures}</div>;
      case "definition":
        return (
          <div className="workflow-definition">
            <JsonTree
              label={t("workflow.definition")}
              value={data.definition ?? data.inputSchema}
              isFill
              fileName={`${name}.json`}
              openDepth={3}
            />
          </div>
        );
    }
  };
  return (
    <Page
      title={name}
      parent={{ label: t("nav.workflows"), href: "/workflows" }}
      badge={
        <>
          <Tag>{data.style}</Tag>
          <span className="faint">v{data.version}</span>
          {data.activeVersion === data.version ? (
            <Tag>{t("workflow.active")}</Tag>
          ) : (
            <Tag>{t("workflow.inactive")}</Tag>
          )}
        </>
      }
      actions={
        <>
          <Button
            tone="primary"
            icon="play"
            reason={canStart ? null : forbidden("workflow:manage")}
            onPress={() => setOpen("start")}
          >
            {t("start.open")}
          </Button>
          <Menu
            label={t("action.more")}
            trigger={<Button icon="more" label={t("action.more")} />}
            entries={[
              {
                id: "export",
                label: t("workflow.export"),
                icon: "download",
                onAction: () => void exportWorkflow(name, data.version),
              },
              {
                id: "delete",
                label: t("workflow.delete"),
                icon: "trash",
                tone: "danger",
                startsGroup: true,
                reason: canPublish ? null : forbidden("workflow:publish"),
                onAction: () => setOpen("delete"),
              },
            ]}
          />
        </>
      }
    >
      {data.description && <p className="workflow-about muted">{data.description}</p>}
      <Tabs
        label={t("run.views")}
        tabs={VIEWS.map((id) => ({
          id,
          label: id === "graph" && data.style === "machine" ? t("machine.states") : t(`workflow.${id}`),
        }))}
        value={view}
        onChange={(next) => set({ view: next === "graph" ? null : next })}
        panelClass="run-panel"
      >
        {content()}
      </Tabs>
      {open === "start" && <StartDialog workflow={data} onClose={() => setOpen(null)} />}
      {open === "delete" && <DeleteDialog name={name} onClose={() => setOpen(null)} />}
    </Page>
  );
}

async function exportWorkflow(name: string, version: number): Promise<void> {
  try {
    const document = await call("GET /v1/workflows/{name}/export", { path: { name }, query: { version } });
    downloadText(`${name}-v${version}.json`, pretty(document));
  } catch (error) {
    showToast(toProblem(error).message, "bad");
  }
}

function DeleteDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => call("DELETE /v1/workflows/{name}", { path: { name } }),
    onSuccess: () => {
      showToast(t("workflow.deleted", { name }));
      void client.invalidateQueries({ queryKey: keys.workflows });
      navigate("/workflows");
    },
  });
  return (
    <Confirm
      title={t("workflow.deleteTitle", { name })}
      isOpen
      onClose={onClose}
      confirmLabel={t("workflow.delete")}
      tone="danger-solid"
      onConfirm={() => remove.mutate()}
      isPending={remove.isPending}
    >
      <p>{t("workflow.deleteText")}</p>
      {remove.error && <Problem problem={toProblem(remove.error)} isInline />}
    </Confirm>
  );
}

const runColumns = (): ReadonlyArray<Column<RunSummary>> => [
  { id: "status", title: t("runs.status"), width: "104px", cell: (run) => <Status status={run.status} /> },
  { id: "id", title: t("runs.id"), width: "130px", cell: (run) => <span className="mono">{shortId(run.id)}</span> },
  {
    id: "version",
    title: t("workflows.version"),
    width: "64px",
    cell: (run) => <span className="muted">v{run.workflowVersion}</span>,
  },
  {
    id: "error",
    title: t("runs.error"),
    width: "minmax(120px, 1fr)",
    cell: (run) =>
      run.error && (
        <span className="journal-error" title={run.error.message}>{`${run.error.code} ${run.error.message}`}</span>
      ),
  },
  { id: "created", title: t("runs.created"), width: "112px", cell: (run) => <Time at={run.createdAt} /> },
  {
    id: "took",
    title: t("runs.duration"),
    width: "88px",
    align: "end",
    cell: (run) => <Duration from={run.createdAt} to={run.endedAt} />,
  },
];

function RecentRuns({ workflow }: { workflow: string }) {
  const [, navigate] = useLocation();
  const runs = useRuns(new URLSearchParams({ workflow }).toString(), { limit: 50 });
  const rows = runs.data?.pages[0]?.runs ?? [];
  if (runs.error) return <Problem problem={toProblem(runs.error)} />;
  if (runs.isPending) return <Skeleton />;
  if (rows.length === 0) return <Empty icon="runs" title={t("runs.none")} />;
  return (
    <>
      <Table
        label={t("nav.runs")}
        columns={runColumns()}
        rows={rows}
        rowId={(run) => run.id}
        rowLabel={(run) => run.id}
        onOpen={(run) => navigate(paths.run(run.id))}
      />
      <div className="run-bar">
        <Link href={withQuery("/runs", { workflow })}>{t("workflow.allRuns")}</Link>
      </div>
    </>
  );
}

function Versions({ name, current, onShow }: { name: string; current: number; onShow: (version: number) => void }) {
  const client = useQueryClient();
  const canPublish = useCan("workflow:publish");
  const versions = useInfiniteQuery({
    queryKey: ["versions", name],
    queryFn: ({ pageParam, signal }) =>
      call("GET /v1/workflows/{name}/versions", {
        path: { name },
        query: { limit: 100, cursor: pageParam ? Number(pageParam) : undefined },
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
  });
  const activate = useMutation({
    mutationFn: (version: number) => call("POST /v1/workflows/{name}/activate", { path: { name }, body: { version } }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["versions", name] });
      void client.invalidateQueries({ queryKey: ["workflow", name] });
      void client.invalidateQueries({ queryKey: keys.workflows });
    },
    onError: (error) => showToast(toProblem(error).message, "bad"),
  });
  const rows = versions.data?.pages.flatMap((page) => page.versions) ?? [];
  const columns: ReadonlyArray<Column<Version>> = [
    { id: "version", title: t("workflows.version"), width: "72px", cell: (one) => <b>v{one.version}</b> },
    {
      id: "state",
      title: "",
      width: "120px",
      cell: (one) => (
        <span className="row">
          {one.isActive && <Tag>{t("workflow.active")}</Tag>}
          {one.version === current && <Tag>{t("workflow.shown")}</Tag>}
        </span>
      ),
    },
    {
      id: "digest",
      title: t("workflow.digest"),
      width: "minmax(120px, 1fr)",
      cell: (one) => <Copyable text={one.digest} isMono />,
    },
    { id: "created", title: t("runs.created"), width: "120px", cell: (one) => <Time at={one.createdAt} /> },
    {
      id: "act",
      title: "",
      width: "110px",
      align: "end",
      cell: (one) =>
        one.isActive ? null : (
          <Button
            size="small"
            reason={canPublish ? null : t("problem.forbidden", { permission: "workflow:publish" })}
            onPress={() => activate.mutate(one.version)}
          >
            {t("workflow.activate")}
          </Button>
        ),
    },
  ];
  if (versions.error) return <Problem problem={toProblem(versions.error)} />;
  if (versions.isPending) return <Skeleton />;
  return (
    <Table
      label={t("workflow.versions")}
      columns={columns}
      rows={rows}
      rowId={(one) => String(one.version)}
      rowLabel={(one) => `v${one.version}`}
      onOpen={(one) => onShow(one.version)}
      onEnd={() => versions.hasNextPage && void versions.fetchNextPage()}
    />
  );
}
