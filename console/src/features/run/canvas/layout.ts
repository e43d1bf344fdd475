// Places the nodes of a graph top-down. A body is placed first; its box then takes part in the placement around it.

import { Graph as DagreGraph, layout as dagre } from "@dagrejs/dagre";
import type { Graph } from "../model/graphModel";

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 52;
/** The part of a box above its body. */
export const BOX_HEAD = 52;
const BOX_PADDING = 16;

export interface Placed {
  /** Relative to the box around it. */
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  nodes: Record<string, Placed>;
  /** For an edge that passes other ranks: the place, from the left, at which it passes them; relative to its box. */
  lanes: Record<string, number>;
}

export function placeGraph(graph: Graph): Layout {
  const placed: Layout = { nodes: {}, lanes: {} };
  place(graph, null, placed);
  return placed;
}

interface Size {
  width: number;
  height: number;
}

/** Places the nodes of one body, or of the whole graph, from (0, 0). Returns their extent. */
function place(graph: Graph, parent: string | null, placed: Layout): Size {
  const nodes = graph.nodes.filter((node) => node.parent === parent);
  const drawing = new DagreGraph({ multigraph: true });
  drawing.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 44 });
  drawing.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) {
    const body = node.isContainer ? place(graph, node.id, placed) : null;
    const size = body
      ? { width: Math.max(NODE_WIDTH, body.width + 2 * BOX_PADDING), height: BOX_HEAD + body.height + BOX_PADDING }
      : { width: NODE_WIDTH, height: NODE_HEIGHT };
    drawing.setNode(node.id, { ...size });
  }
  const isHere = (id: string) => nodes.some((node) => node.id === id);
  for (const edge of graph.edges) {
    if (!edge.isBody && edge.source !== edge.target && isHere(edge.source) && isHere(edge.target)) {
      drawing.setEdge(edge.source, edge.target, {}, edge.id);
    }
  }
  dagre(drawing);
  const boxes = nodes.map((node) => ({ id: node.id, at: drawing.node(node.id) as Placed }));
  const left = Math.min(...boxes.map(({ at }) => at.x - at.width / 2), Number.POSITIVE_INFINITY);
  const top = Math.min(...boxes.map(({ at }) => at.y - at.height / 2), Number.POSITIVE_INFINITY);
  const [dx, dy] = parent === null ? [0, 0] : [BOX_PADDING, BOX_HEAD];
  let extent: Size = { width: 0, height: 0 };
  for (const { id, at } of boxes) {
    const x = at.x - at.width / 2 - left;
    const y = at.y - at.height / 2 - top;
    placed.nodes[id] = { x: x + dx, y: y + dy, width: at.width, height: at.height };
    extent = { width: Math.max(extent.width, x + at.width), height: Math.max(extent.height, y + at.height) };
  }
  for (const { v, w, name } of drawing.edges()) {
    const points = drawing.edge(v, w, name)?.points as Array<{ x: number; y: number }> | undefined;
    const middle = points?.[Math.floor(points.length / 2)];
    // An edge to the next rank has three points: both ends, and the middle.
    if (name && points && middle && points.length > 3) placed.lanes[name] = middle.x - left + dx;
  }
  return extent;
}
