// The page of a run.

import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from "react";
import { toProblem } from "../../api/problem";
import { keys, useRun, useWorkflow } from "../../api/queries";
import type { Run } from "../../api/types";
import { t } from "../../lib/i18n";
import { Refresher } from "../../lib/throttle";
import { paths, useSearchState } from "../../lib/url";
import { Page, Problem, Skeleton, Status, Tabs } from "../../ui";
import { RunActions } from "./actions/RunActions";
import { statusOf } from "./model/fold";
import { type GraphNode, readGraph } from "./model/graphModel";
import { REFRESH_EVERY, RunProvider, useNodeFold, useRunPart, useRunStore } from "./runContext";
import { RunStore } from "./runStore";
import { ContextView } from "./views/ContextView";
import { Journal } from "./views/Journal";
import { LogsView } from "./views/LogsView";
import { MachineView } from "./views/MachineView";
import { RunHeader } from "./views/RunHeader";
import { StepList } from "./views/StepList";
import { StepPanel } from "./views/StepPanel";
import { Timeline } from "./views/Timeline";
import { TimeTravel } from "./views/TimeTravel";
import { ValuesView } from "./views/ValuesView";
import "./run.css";

const GraphCanvas = lazy(() => import("./canvas/GraphCanvas").then((module) => ({ default: module.GraphCanvas })));

const VIEWS = ["graph", "timeline", "journal", "context", "logs", "values"] as const;
type ViewName = (typeof VIEWS)[number];

export function RunScreen({ id }: { id: string }) {
  const run = useRun(id);
  // Data that is shown stays while the server does not reply; the banner says so.
  if (run.isLoadingError) {
    return (
      <Page title={t("run.title")} parent={{ label: t("nav.runs"), href: "/runs" }}>
        <Problem problem={toProblem(run.error)} onRetry={() => void run.refetch()} />
      </Page>
    );
  }
  if (!run.data) return <Skeleton rows={16} />;
  return <LoadedRun run={run.data} />;
}

/** How long changes of a run are gathered before its document is requested again, at most every REFRESH_EVERY. */
const REFRESH_AFTER = 250;

function useRunStoreOf(run: Run, at: number | null): RunStore {
  const client = useQueryClient();
  const [store, setStore] = useState(() => new RunStore(run.id, at));
  // biome-ignore lint/correctness/useExhaustiveDependencies: the entry on screen changes within one store.
  useEffect(() => {
    // An effect may run twice for one mount; each run has a store of its own.
    const own = new RunStore(run.id, at);
    const refresh = () => client.invalidateQueries({ queryKey: keys.run(run.id) });
    const refresher = new Refresher(refresh, REFRESH_AFTER, REFRESH_EVERY);
    own.onStatus = () => refresher.request();
    setStore(own);
    void own.start();
    return () => {
      refresher.stop();
      own.close();
    };
  }, [client, run.id]);
  return store;
}

function LoadedRun({ run }: { run: Run }) {
  const { params, set } = useSearchState();
  const at = params.get("at") === null ? null : Number(params.get("at"));
  const store = useRunStoreOf(run, at);
  useEffect(() => store.setAt(at), [store, at]);
  useEffect(() => store.notice(run.version), [store, run.version]);
  return (
    <RunProvider value={store}>
      <Page
        title={run.workflow}
        parent={{ label: t("nav.runs"), href: paths.runs({ workflow: run.workflow }) }}
        badge={
          <>
            <span className="faint">v{run.workflowVersion}</span>
            <LiveStatus run={run} />
          </>
        }
        actions={<RunActions run={run} at={at} />}
      >
        <RunHeader run={run} />
        <Views run={run} params={params} set={set} />
        <TimeTravel onAt={(seq) => set({ at: seq === null ? null : String(seq) })} />
      </Page>
    </RunProvider>
  );
}

/** The status of the fold, which the list shows too; the document's while the journal is loading. */
function LiveStatus({ run }: { run: Run }) {
  const status = useRunPart((view) => (view.phase === "ready" ? statusOf(view.fold) : run.status));
  return <Status status={status} isPill />;
}

type SetParams = ReturnType<typeof useSearchState>["set"];

function Views({ run, params, set }: { run: Run; params: URLSearchParams; set: SetParams }) {
  const wanted = params.get("view");
  const view: ViewName = VIEWS.find((name) => name === wanted) ?? "graph";
  const step = params.get("step");
  const attempt = params.get("attempt") === null ? null : Number(params.get("attempt"));
  const problem = useRunPart((one) => one.problem);
  const phase = useRunPart((one) => one.phase);
  const select = useCallback((key: string) => set({ step: key, attempt: null }), [set]);
  const content = () => {
    if (view === "values") return <ValuesView run={run} />;
    if (problem) return <Problem problem={problem} onRetry={() => window.location.reload()} />;
    if (phase === "loading") return <Skeleton rows={12} />;
    switch (view) {
      case "graph":
        return <Drawing run={run} selected={step} onSelect={select} />;
      case "timeline":
        return <Timeline selected={step} onSelect={select} />;
      case "journal":
        return <Journal onAt={(seq) => set({ at: String(seq) })} />;
      case "context":
        return <ContextView />;
      case "logs":
        return <LogsView />;
    }
  };
  return (
    <div className={step ? "run-body with-panel" : "run-body"}>
      <Tabs
        label={t("run.views")}
        tabs={VIEWS.map((name) => ({
          id: name,
          label: name === "graph" && run.machine ? t("machine.states") : t(`run.${name}`),
          ...(name === "journal" ? { count: <EntryCount /> } : {}),
        }))}
        value={view}
        onChange={(next) => set({ view: next === "graph" ? null : next })}
        panelClass="run-panel"
      >
        {content()}
      </Tabs>
      {step && (
        <StepPanel
          step={step}
          attempt={attempt}
          onStep={select}
          onAttempt={(number) => set({ attempt: number === null ? null : String(number) })}
          onClose={() => set({ step: null, attempt: null })}
        />
      )}
    </div>
  );
}

/** A component of its own: the views are not drawn again with every entry. */
function EntryCount() {
  const last = useRunPart((view) => view.last);
  return last > 0 && <span className="count">{last}</span>;
}

interface DrawingProps {
  run: Run;
  selected: string | null;
  onSelect: (key: string) => void;
}

/** The graph of the run's version, the states of a machine, or the steps of a function. */
function Drawing({ run, selected, onSelect }: DrawingProps) {
  const workflow = useWorkflow(run.workflow, run.workflowVersion);
  const graph = useMemo(() => readGraph(workflow.data?.definition), [workflow.data]);
  const selectedNode = useRunPart((view) => (selected === null ? null : (view.fold.steps.get(selected)?.node ?? null)));
  const { view } = useRunStore();
  // The canvas is drawn again only if its properties change: an entry redraws the node of its step.
  const open = useCallback(
    (node: GraphNode) => {
      const { fold } = view.get();
      const own = fold.nodes.get(node.id);
      if (!own) return;
      const steps = [...fold.steps.values()].filter((step) => step.node === node.id);
      onSelect((steps.find((step) => step.status === "failed") ?? own.latest).key);
    },
    [view, onSelect],
  );
  if (workflow.isPending) return <Skeleton rows={12} />;
  if (workflow.data?.style === "machine") return <MachineView run={run} workflow={workflow.data} />;
  // A run outlives its definition: then its steps are shown without the graph.
  if (graph.nodes.length === 0) return <StepList selected={selected} onSelect={onSelect} />;
  return (
    <Suspense fallback={<Skeleton rows={12} />}>
      <GraphCanvas graph={graph} useNode={useNodeFold} selected={selectedNode} onSelect={open} />
    </Suspense>
  );
}
