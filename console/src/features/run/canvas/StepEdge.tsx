// An edge: solid if it was followed, faint if it was not.

import { BaseEdge, type Edge, type EdgeProps, getSmoothStepPath } from "@xyflow/react";
import { memo, useContext } from "react";
import { edgeState, type GraphEdge } from "../model/graphModel";
import { CanvasContext } from "./canvasContext";

/** The distance of the label from the node that the edge leads to: edges of one node share their beginnings, not their ends. */
const LABEL_ABOVE = 12;

export const StepEdge = memo(function StepEdge(props: EdgeProps<Edge<{ edge: GraphEdge }>>) {
  const { useNode } = useContext(CanvasContext);
  const source = useNode(props.source);
  const target = useNode(props.target);
  const edge = props.data?.edge;
  if (!edge) return null;
  const state = edgeState(edge, source, target);
  const [path] = getSmoothStepPath({ ...props, borderRadius: 8 });
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
