// An edge: solid if it was followed, faint if it was not.

import { BaseEdge, type Edge, type EdgeProps, getSmoothStepPath } from "@xyflow/react";
import { memo, useContext } from "react";
import { edgeState, type GraphEdge } from "../model/graphModel";
import { CanvasContext } from "./canvasContext";

export const StepEdge = memo(function StepEdge(props: EdgeProps<Edge<{ edge: GraphEdge }>>) {
  const { useNode } = useContext(CanvasContext);
  const source = useNode(props.source);
  const target = useNode(props.target);
  const edge = props.data?.edge;
  if (!edge) return null;
  const state = edgeState(edge, source, target);
  const [path, x, y] = getSmoothStepPath({ ...props, borderRadius: 8 });
  const label = edge.handle === null || edge.handle === "success" || edge.handle === "done" ? null : edge.handle;
  return (
    <g className={`canvas-edge ${state}`}>
      <BaseEdge path={path} />
      {label !== null && (
        <text x={x} y={y} textAnchor="middle" dominantBaseline="middle">
          {label}
        </text>
      )}
    </g>
  );
});
