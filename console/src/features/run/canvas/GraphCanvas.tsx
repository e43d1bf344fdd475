// The drawing of a graph. Only this folder imports @xyflow/react.

import {
  Background,
  BackgroundVariant,
  type Edge,
  type Node,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { memo, useMemo, useState } from "react";
import { t } from "../../../lib/i18n";
import { Button, Skeleton } from "../../../ui";
import type { Graph, GraphEdge } from "../model/graphModel";
import "./canvas.css";
import { CanvasContext, type CanvasOptions } from "./canvasContext";
import { BoxNode, StepNode } from "./nodes";
import { StepEdge } from "./StepEdge";
import { type PlacedGraph, useLayout } from "./useLayout";

const NODE_TYPES = { step: StepNode, box: BoxNode };
const EDGE_TYPES = { step: StepEdge };
const FIT = { padding: 0.12, maxZoom: 1 };
/** Below it texts cannot be read: nodes are drawn as areas of their colour. */
const FAR_ZOOM = 0.35;
/** The library names the roles of its elements in English. A node contains a button with its name. */
const NO_ROLE = { "aria-roledescription": undefined };
const BEGIN_ZOOM = 0.8;
const TOP_SPACE = 40;

/** Drawn again only if a property changes: every node reads the options. */
export const GraphCanvas = memo(function GraphCanvas({ graph, ...own }: { graph: Graph } & CanvasOptions) {
  const { useNode, selected, onSelect, markOf } = own;
  const options = useMemo(() => ({ useNode, selected, onSelect, markOf }), [useNode, selected, onSelect, markOf]);
  const placed = useLayout(graph);
  if (placed === null) return <Skeleton rows={10} />;
  return (
    <CanvasContext.Provider value={options}>
      <ReactFlowProvider>
        <Drawing graph={graph} placed={placed} />
      </ReactFlowProvider>
    </CanvasContext.Provider>
  );
});

/** Nodes and edges as the library expects them: parents before their children. */
function elements(graph: Graph, placed: PlacedGraph): { nodes: Node[]; edges: Edge[] } {
  const { layout, isStored } = placed;
  const parentOf = new Map(graph.nodes.map((node) => [node.id, node.parent]));
  const depth = (id: string | null): number => (id === null ? 0 : 1 + depth(parentOf.get(id) ?? null));
  /** The left side of the box around a node, on the whole drawing. */
  const leftOf = (id: string): number => {
    const parent = parentOf.get(id) ?? null;
    return parent === null ? 0 : (layout.nodes[parent]?.x ?? 0) + leftOf(parent);
  };
  /** Edges pass below the nodes of their body, and above the box around it. */
  const level = (parent: string | null): number => (isStored ? 0 : 2 * depth(parent));
  const laneOf = (edge: GraphEdge): number | null => {
    const lane = layout.lanes[edge.id];
    return lane === undefined ? null : lane + leftOf(edge.source);
  };
  const nodes = [...graph.nodes]
    .sort((a, b) => depth(a.parent) - depth(b.parent))
    .map<Node>((node) => {
      const at = layout.nodes[node.id] ?? { x: 0, y: 0, width: 0, height: 0 };
      const isBox = node.isContainer && !isStored;
      return {
        id: node.id,
        type: isBox ? "box" : "step",
        position: { x: at.x, y: at.y },
        width: at.width,
        height: at.height,
        // Known before the nodes are drawn and measured, so that the edges appear together with them.
        measured: { width: at.width, height: at.height },
        handles: [
          { type: "target", position: Position.Top, x: at.width / 2, y: 0 },
          { type: "source", position: Position.Bottom, x: at.width / 2, y: at.height },
        ],
        data: { node },
        zIndex: level(node.parent) + 1,
        ...(node.parent !== null && !isStored ? { parentId: node.parent } : {}),
        focusable: false,
        draggable: false,
        domAttributes: NO_ROLE,
        // The library ignores the pointer on nodes that it neither selects nor moves; ours are pressed.
        style: { pointerEvents: "all" },
      };
    });
  const edges = graph.edges
    .filter((edge) => isStored || !edge.isBody)
    .map<Edge>((edge) => ({
      id: edge.id,
      source: edge.source,
      target: edge.target,
      type: "step",
      data: { edge, lane: laneOf(edge) },
      ariaLabel: t("graph.edge", { source: edge.source, target: edge.target }),
      domAttributes: NO_ROLE,
      focusable: false,
      selectable: false,
      zIndex: level(parentOf.get(edge.source) ?? null),
    }));
  return { nodes, edges };
}

function Drawing({ graph, placed }: { graph: Graph; placed: PlacedGraph }) {
  const { nodes, edges } = useMemo(() => elements(graph, placed), [graph, placed]);
  const flow = useReactFlow();
  const height = useStore((state) => state.height);
  const isFar = useStore((state) => state.transform[2] < FAR_ZOOM);
  // Until it is fitted, the drawing would be seen to jump.
  const [isFitted, setFitted] = useState(false);
  // A graph that fits only as a strip is shown from its beginning instead.
  const begin = (instance: ReactFlowInstance) => {
    void instance.fitView(FIT).then(() => {
      setFitted(true);
      if (instance.getZoom() >= FAR_ZOOM) return;
      const first = graph.nodes.find((node) => node.type === "start") ?? graph.nodes[0];
      const at = first && placed.layout.nodes[first.id];
      if (at)
        void instance.setCenter(at.x + at.width / 2, at.y + height / 2 / BEGIN_ZOOM - TOP_SPACE, { zoom: BEGIN_ZOOM });
    });
  };
  return (
    <div className={["canvas", isFar && "far", !isFitted && "unfitted"].filter(Boolean).join(" ")}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable={false}
        disableKeyboardA11y
        zIndexMode="manual"
        onlyRenderVisibleElements={nodes.length > 120}
        minZoom={0.05}
        maxZoom={1.5}
        onInit={begin}
        proOptions={{ hideAttribution: true }}
        aria-label={t("graph.label")}
      >
        <Background variant={BackgroundVariant.Dots} gap={20} size={1} color="var(--border)" />
      </ReactFlow>
      <div className="canvas-tools">
        <Button
          icon="plus"
          size="small"
          label={t("graph.zoomIn")}
          onPress={() => void flow.zoomIn({ duration: 120 })}
        />
        <Button
          icon="minus"
          size="small"
          label={t("graph.zoomOut")}
          onPress={() => void flow.zoomOut({ duration: 120 })}
        />
        <Button
          icon="fit"
          size="small"
          label={t("graph.fit")}
          onPress={() => void flow.fitView({ padding: 0.12, duration: 120 })}
        />
      </div>
    </div>
  );
}
