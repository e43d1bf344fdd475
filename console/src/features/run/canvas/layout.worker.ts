// Places a graph without blocking the page.

import type { Graph } from "../model/graphModel";
import { placeGraph } from "./layout";

self.onmessage = (event: MessageEvent<{ id: number; graph: Graph }>) => {
  self.postMessage({ id: event.data.id, layout: placeGraph(event.data.graph) });
};
