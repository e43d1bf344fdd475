// What the drawing of a graph needs besides the graph.

import { createContext } from "react";
import type { NodeFold } from "../model/fold";
import type { EdgeState, GraphNode } from "../model/graphModel";

export interface CanvasOptions {
  /** The state of a node, as a hook: a node is drawn again only when its own state changes. */
  useNode: (id: string) => NodeFold | undefined;
  selected: string | null;
  onSelect: ((node: GraphNode) => void) | null;
  /** A mark on a node, such as a difference between two runs. */
  markOf?: (id: string) => string | null;
}

export type { EdgeState };

export const CanvasContext = createContext<CanvasOptions>({ useNode: () => undefined, selected: null, onSelect: null });
