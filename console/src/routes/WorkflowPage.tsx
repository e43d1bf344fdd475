// `/workflows/:name`

import { lazy, Suspense, useMemo } from "react";
import type { Workflow } from "../api/types";
import { Figures } from "../features/figures/Figures";
import { readGraph } from "../features/run/model/graphModel";
import { readMachine } from "../features/run/model/machineModel";
import { MachineDiagram } from "../features/run/views/MachineDiagram";
import { WorkflowScreen } from "../features/workflows/WorkflowScreen";
import { t } from "../lib/i18n";
import { paths } from "../lib/url";
import { Empty, Skeleton } from "../ui";

const GraphCanvas = lazy(() =>
  import("../features/run/canvas/GraphCanvas").then((module) => ({ default: module.GraphCanvas })),
);

export default function WorkflowPage({ name }: { name: string }) {
  return (
    <WorkflowScreen
      name={name}
      graph={(workflow) => <Definition workflow={workflow} />}
      figures={<Figures workflow={name} />}
    />
  );
}

const noState = () => undefined;

function Definition({ workflow }: { workflow: Workflow }) {
  const graph = useMemo(() => readGraph(workflow.definition), [workflow.definition]);
  const states = useMemo(() => readMachine(workflow.definition), [workflow.definition]);
  if (states.length > 0) {
    const runsIn = (state: string) => paths.runs({ workflow: workflow.name, state });
    return <MachineDiagram states={states} runsIn={runsIn} />;
  }
  if (graph.nodes.length === 0) {
    return (
      <Empty icon="code" title={t("workflow.noGraph")}>
        {t("workflow.noGraphText")}
      </Empty>
    );
  }
  return (
    <Suspense fallback={<Skeleton rows={12} />}>
      <GraphCanvas graph={graph} useNode={noState} selected={null} onSelect={null} />
    </Suspense>
  );
}
