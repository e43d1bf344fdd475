// A node of the drawing, and the box of a loop or scope.

import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { type KeyboardEvent, memo, useContext } from "react";
import { useNow } from "../../../lib/clock";
import { formatNumber, t, tWord } from "../../../lib/i18n";
import type { StepStatus } from "../../../lib/status";
import { formatDuration } from "../../../lib/time";
import { Icon, kindIcon, StatusMark } from "../../../ui";
import type { NodeFold } from "../model/fold";
import type { GraphNode } from "../model/graphModel";
import { CanvasContext } from "./canvasContext";

type Props = NodeProps<Node<{ node: GraphNode }>>;

/** The status that a node shows for all its steps: the most urgent one. */
const ORDER: readonly StepStatus[] = ["failed", "running", "waiting", "pending", "cancelled", "completed", "skipped"];

export function nodeStatus(fold: NodeFold | undefined): StepStatus | null {
  if (fold === undefined) return null;
  if (fold.total === 1) return fold.latest.status;
  return ORDER.find((status) => fold.counts[status] > 0) ?? null;
}

export const StepNode = memo(function StepNode({ data: { node } }: Props) {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <Head node={node} className="canvas-node" />
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
});

export const BoxNode = memo(function BoxNode({ data: { node } }: Props) {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <div className="canvas-box">
        <Head node={node} className="canvas-box-head" />
      </div>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
});

function Head({ node, className }: { node: GraphNode; className: string }) {
  const { useNode, selected, onSelect, markOf } = useContext(CanvasContext);
  const fold = useNode(node.id);
  const status = nodeStatus(fold);
  const mark = markOf?.(node.id) ?? null;
  const classes = [
    className,
    status ? `is-${status}` : "is-idle",
    selected === node.id && "selected",
    mark && `mark-${mark}`,
  ];
  const select = onSelect && (fold || mark) ? () => onSelect(node) : undefined;
  const word = status ? tWord("status", status) : t("graph.notReached");
  const shared = {
    className: classes.filter(Boolean).join(" "),
    title: node.id,
  };
  const content = (
    <>
      <span className="canvas-icon">
        <Icon name={kindIcon(node.type)} />
      </span>
      <span className="canvas-text">
        <b className="cut">
          {node.title} <span className="sr">{word}</span>
        </b>
        <span className="cut">{fold ? <Detail fold={fold} /> : node.type}</span>
      </span>
      {status && <StatusMark status={status} size={16} />}
    </>
  );
  if (!select) {
    return (
      <div role="img" aria-label={`${node.title} ${word}`} {...shared}>
        {content}
      </div>
    );
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    select();
  };
  return (
    <div role="button" tabIndex={0} {...shared} onClick={select} onKeyDown={onKeyDown}>
      {content}
    </div>
  );
}

function Detail({ fold }: { fold: NodeFold }) {
  const step = fold.latest;
  if (fold.total > 1) return <Counts fold={fold} />;
  if (step.activity.does === "body" && step.activity.items > 0) {
    return (
      <>
        {t("graph.items", { n: step.activity.items })} · <Took fold={fold} />
      </>
    );
  }
  const attempt = step.attempts.at(-1)?.attempt ?? 0;
  return (
    <>
      {attempt > 1 && `${t("graph.attempt", { n: attempt })} · `}
      {step.status === "skipped" ? tWord("status", "skipped") : <Took fold={fold} />}
    </>
  );
}

/** `×2500`, and how many of them have which status. */
function Counts({ fold }: { fold: NodeFold }) {
  const parts = ORDER.filter(
    (status) => status !== "completed" && fold.counts[status] > 0 && fold.counts[status] < fold.total,
  );
  return (
    <>
      ×{formatNumber(fold.total)}
      {parts.map((status) => (
        <span key={status} className={`canvas-count is-${status}`}>
          {" "}
          {formatNumber(fold.counts[status])} {tWord("status", status)}
        </span>
      ))}
    </>
  );
}

function Took({ fold }: { fold: NodeFold }) {
  const { since, endedAt } = fold.latest;
  if (since === null) return null;
  return endedAt === null ? <Lasting since={since} /> : <>{formatDuration(endedAt - since)}</>;
}

function Lasting({ since }: { since: number }) {
  return <>{formatDuration(useNow() - since)}</>;
}
