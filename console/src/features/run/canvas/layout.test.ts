import { expect, test } from "vitest";
import { readGraph } from "../model/graphModel";
import { BOX_HEAD, NODE_HEIGHT, NODE_WIDTH, placeGraph } from "./layout";
import { lanePath } from "./StepEdge";

test("a_body_is_placed_inside_its_box", () => {
  const graph = readGraph({
    nodes: ["start", "each", "work", "end"].map((id) => ({ id, type: id === "each" ? "loop" : id })),
    edges: [
      { source: "start", target: "each" },
      { source: "each", target: "work", sourceHandle: "loop" },
      { source: "work", target: "each" },
      { source: "each", target: "end", sourceHandle: "done" },
    ],
  });
  const { nodes } = placeGraph(graph);
  const [box, work, end] = [nodes.each, nodes.work, nodes.end];
  expect(work).toMatchObject({ y: BOX_HEAD, width: NODE_WIDTH, height: NODE_HEIGHT });
  expect(box?.height).toBeGreaterThan(BOX_HEAD + NODE_HEIGHT);
  expect(end?.y).toBeGreaterThan((box?.y ?? 0) + (box?.height ?? 0));
});

test("an_edge_past_another_rank_has_a_lane_beside_its_nodes", () => {
  const graph = readGraph({
    nodes: ["a", "b", "c"].map((id) => ({ id, type: "noop" })),
    edges: [
      { source: "a", target: "b" },
      { source: "b", target: "c" },
      { source: "a", target: "c" },
    ],
  });
  const { nodes, lanes } = placeGraph(graph);
  const lane = lanes["2:a:c"] ?? Number.NaN;
  const b = nodes.b;
  expect(lane < (b?.x ?? 0) || lane > (b?.x ?? 0) + NODE_WIDTH).toBe(true);
  expect(lanePath({ sourceX: 0, sourceY: 0, targetX: 0, targetY: 200 }, 100)).toMatch(/^M0,0L0,14Q.*L0,200$/);
});
