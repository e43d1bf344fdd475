// The places of the nodes: as stored in the definition, else as computed by the worker.

import { useEffect, useState } from "react";
import type { Graph } from "../model/graphModel";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layout";

/** The stored places, if every node has one. They are absolute, so there are no boxes. */
export function storedLayout(graph: Graph): Layout | null {
  const layout: Layout = { nodes: {}, lanes: {} };
  for (const node of graph.nodes) {
    if (node.position === null) return null;
    layout.nodes[node.id] = { ...node.position, width: NODE_WIDTH, height: NODE_HEIGHT };
  }
  return graph.nodes.length === 0 ? null : layout;
}

let shared: Worker | null = null;
let next = 0;
const pending = new Map<number, (layout: Layout) => void>();

function worker(): Worker {
  if (shared === null) {
    shared = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    shared.onmessage = (event: MessageEvent<{ id: number; layout: Layout }>) => {
      pending.get(event.data.id)?.(event.data.layout);
      pending.delete(event.data.id);
    };
  }
  return shared;
}

export interface PlacedGraph {
  layout: Layout;
  isStored: boolean;
}

export function useLayout(graph: Graph): PlacedGraph | null {
  const [placed, setPlaced] = useState<{ graph: Graph; result: PlacedGraph } | null>(null);
  useEffect(() => {
    const stored = storedLayout(graph);
    if (stored) {
      setPlaced({ graph, result: { layout: stored, isStored: true } });
      return;
    }
    next += 1;
    const id = next;
    pending.set(id, (layout) => setPlaced({ graph, result: { layout, isStored: false } }));
    worker().postMessage({ id, graph });
    return () => {
      pending.delete(id);
    };
  }, [graph]);
  return placed?.graph === graph ? placed.result : null;
}
