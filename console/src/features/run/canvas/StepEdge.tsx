// An edge: solid if it was followed, faint if it was not.

import { BaseEdge, type Edge, type EdgeProps, getSmoothStepPath } from "@xyflow/react";
import { memo, useContext } from "react";
import { edgeState, type GraphEdge } from "../model/graphModel";
import { CanvasContext } from "./canvasContext";

/** The distance of the label from the node that the edge leads to: edges of one node share their beginnings, not their ends. */
const LABEL_ABOVE = 12;

const RADIUS = 8;
/** The height between two ranks in which an edge goes sideways. */
const TURN = 22;

interface Ends {
  sourceX: number;
  sourceY: number;
  targetX: number;
  targetY: number;
}

/** A path beside the nodes that it passes: down, sideways to its lane, down, sideways to its target. */
export function lanePath({ sourceX, sourceY, targetX, targetY }: Ends, lane: number): string {
  const [upper, lower] = [sourceY + TURN, targetY - TURN];
  return `M${sourceX},${sourceY}${turn(sourceX, lane, upper)}${turn(lane, targetX, lower)}L${targetX},${targetY}`;
}

/** Down to a height, sideways to another place, with round corners. */
function turn(from: number, to: number, height: number): string {
  const distance = Math.abs(to - from);
  if (distance < 1) return `L${to},${height}`;
  const radius = Math.min(RADIUS, distance / 2);
  const side = to > from ? radius : -radius;
  return `L${from},${height - radius}Q${from},${height} ${from + side},${height}L${to - side},${height}Q${to},${height} ${to},${height + radius}`;
}

export const StepEdge = memo(function StepEdge(props: EdgeProps<Edge<{ edge: GraphEdge; lane: number | null }>>) {
  const { useNode } = useContext(CanvasContext);
  const source = useNode(props.source);
  const target = useNode(props.target);
  const edge = props.data?.edge;
  if (!edge) return null;
  const state = edgeState(edge, source, target);
  const lane = props.data?.lane ?? null;
  const path = lane === null ? getSmoothStepPath({ ...props, borderRadius: RADIUS })[0] : lanePath(props, lane);
  const label = edge.handle === null || edge.handle === "success" || edge.handle === "done" ? null : edge.handle;
  return (
    <g className={`canvas-edge ${state}`}>
      <BaseEdge path={path} />
      {label !== null && (
        <text x={props.targetX} y={props.targetY - LABEL_ABOVE} textAnchor="middle" dominantBaseline="middle">
          {label}
        </text>
      )}
    </g>
  );
});
