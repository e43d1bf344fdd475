// A definition as a drawing: nodes, edges, and boxes around the bodies of loops and scopes.

import { isObject } from "../../../lib/json";
import type { NodeFold } from "./fold";

export interface GraphNode {
  id: string;
  type: string;
  title: string;
  /** The loop or scope whose body contains it. */
  parent: string | null;
  isContainer: boolean;
  position: { x: number; y: number } | null;
}

export interface GraphEdge {
  id: string;
  source: string;
  target: string;
  handle: string | null;
  /** Into or back from a body: the box says it already. */
  isBody: boolean;
}

export interface Graph {
  nodes: readonly GraphNode[];
  edges: readonly GraphEdge[];
}

/** Handles that lead into the body of a loop and of a scope. */
const BODY_HANDLES: Record<string, string> = { loop: "loop", scope: "body" };

export function readGraph(definition: unknown): Graph {
  if (!isObject(definition) || !Array.isArray(definition.nodes)) return { nodes: [], edges: [] };
  const raw = definition.nodes.filter(isObject).filter((node) => typeof node.id === "string");
  const types = new Map(raw.map((node) => [String(node.id), String(node.type ?? "")]));
  const links = (Array.isArray(definition.edges) ? definition.edges : [])
    .filter(isObject)
    .map((edge, index) => ({
      id: `${index}:${String(edge.source)}:${String(edge.target)}`,
      source: String(edge.source),
      target: String(edge.target),
      handle: typeof edge.sourceHandle === "string" ? edge.sourceHandle : null,
    }))
    .filter((edge) => types.has(edge.source) && types.has(edge.target));
  const parents = bodies(types, links);
  const isInside = (node: string, container: string) => {
    for (let up = parents.get(node) ?? null; up !== null; up = parents.get(up) ?? null)
      if (up === container) return true;
    return false;
  };
  return {
    nodes: raw.map((node) => ({
      id: String(node.id),
      type: String(node.type ?? ""),
      title: titleOf(node),
      parent: parents.get(String(node.id)) ?? null,
      isContainer: String(node.type) in BODY_HANDLES,
      position: readPosition(node.position),
    })),
    edges: links.map((edge) => ({
      ...edge,
      isBody: isInside(edge.target, edge.source) || isInside(edge.source, edge.target),
    })),
  };
}

/** The label of drawings, else the name or title that the server reports, else the id. */
function titleOf({ id, label, name, title }: Record<string, unknown>): string {
  const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
  return [label, name, title].find(isText) ?? String(id);
}

function readPosition(value: unknown): { x: number; y: number } | null {
  if (!isObject(value) || typeof value.x !== "number" || typeof value.y !== "number") return null;
  return { x: value.x, y: value.y };
}

interface Link {
  source: string;
  target: string;
  handle: string | null;
}

/** The innermost loop or scope around each node: the nodes that its body handle leads to, without the node itself. */
function bodies(types: ReadonlyMap<string, string>, links: readonly Link[]): Map<string, string> {
  const inside = new Map<string, Set<string>>();
  for (const [id, type] of types) {
    const handle = BODY_HANDLES[type];
    if (handle === undefined) continue;
    const found = new Set<string>();
    const queue = links.filter((link) => link.source === id && link.handle === handle).map((link) => link.target);
    for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
      if (node === id || found.has(node)) continue;
      found.add(node);
      queue.push(...links.filter((link) => link.source === node).map((link) => link.target));
    }
    inside.set(id, found);
  }
  const parents = new Map<string, string>();
  // The smallest body that contains a node is the innermost one.
  const bySize = [...inside].sort(([, a], [, b]) => a.size - b.size);
  for (const [container, nodes] of bySize) {
    for (const node of nodes) if (!parents.has(node)) parents.set(node, container);
  }
  return parents;
}

export type EdgeState = "open" | "taken" | "dead";

/** Whether an edge was followed. Inside a loop it was followed if any iteration did. */
export function edgeState(edge: GraphEdge, source: NodeFold | undefined, target: NodeFold | undefined): EdgeState {
  if (source === undefined) return "open";
  const wasSkipped = source.total > 0 && source.counts.skipped === source.total;
  if (wasSkipped) return "dead";
  const isTaken = source.handles.some((handle) => {
    if (handle === "") return edge.handle === null || edge.handle === "success" || edge.handle === "done";
    return handle === edge.handle || (edge.handle === null && handle === "success");
  });
  if (isTaken && target !== undefined && target.counts.skipped < target.total) return "taken";
  const isFinished = source.counts.running + source.counts.waiting + source.counts.pending === 0;
  return isFinished ? "dead" : "open";
}
