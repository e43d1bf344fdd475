// The panel about one step: its values, its error, its logs, every attempt.

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Cut, StepDetail } from "../../../api/types";
import { formatBytes } from "../../../lib/bytes";
import { t } from "../../../lib/i18n";
import { isObject } from "../../../lib/json";
import { enclosing } from "../../../lib/stepKey";
import { formatDuration } from "../../../lib/time";
import { paths } from "../../../lib/url";
import {
  Button,
  Copyable,
  CopyButton,
  Empty,
  Icon,
  JsonTree,
  kindIcon,
  Link,
  Problem,
  Segmented,
  Skeleton,
  Status,
  StatusMark,
} from "../../../ui";
import type { NodeFold, StepFold } from "../model/fold";
import { errorOf } from "../model/stepError";
import { useRunPart, useRunStore, useStepFold } from "../runContext";
import { LogLines, type ShownLine } from "./LogLines";

interface StepPanelProps {
  step: string;
  attempt: number | null;
  onStep: (key: string) => void;
  onAttempt: (attempt: number | null) => void;
  onClose: () => void;
}

export function StepPanel({ step: key, attempt, onStep, onAttempt, onClose }: StepPanelProps) {
  const step = useStepFold(key);
  const node = useRunPart((view) => (step ? view.fold.nodes.get(step.node) : undefined));
  return (
    <aside className="panel" aria-label={t("step.panel", { step: key })}>
      <header className="panel-head">
        <Icon name={kindIcon(step?.type)} />
        <b className="cut grow">
          <Copyable text={key} />
        </b>
        <CopyButton text={window.location.href} label={t("step.copyLink")} />
        <Button icon="close" tone="ghost" size="small" label={t("ui.close")} onPress={onClose} />
      </header>
      {node && node.total > 1 && <Iterations node={node} current={key} onStep={onStep} />}
      {step ? (
        <Body step={step} attempt={attempt} onAttempt={onAttempt} />
      ) : (
        <Empty icon="clock" title={t("step.notYet")} />
      )}
    </aside>
  );
}

const PAGE = 60;
const URGENCY = ["failed", "running", "waiting", "pending", "cancelled", "completed", "skipped"];

/** The iterations of a node inside a loop, the failed ones first. */
function Iterations({ node, current, onStep }: { node: NodeFold; current: string; onStep: (key: string) => void }) {
  const fold = useRunPart((view) => view.fold);
  const [page, setPage] = useState(0);
  const steps = useMemo(() => {
    const own = [...fold.steps.values()].filter((step) => step.node === node.node);
    return own.sort((a, b) => URGENCY.indexOf(a.status) - URGENCY.indexOf(b.status) || a.firstSeq - b.firstSeq);
  }, [fold, node]);
  const pages = Math.ceil(steps.length / PAGE);
  return (
    <div className="iterations">
      <div className="row">
        <span className="muted grow">{t("step.iterations", { n: node.total })}</span>
        {pages > 1 && (
          <>
            <Button
              icon="chevronLeft"
              size="small"
              tone="ghost"
              label={t("ui.previous")}
              isDisabled={page === 0}
              onPress={() => setPage(page - 1)}
            />
            <span className="faint">
              {page + 1} / {pages}
            </span>
            <Button
              icon="chevronRight"
              size="small"
              tone="ghost"
              label={t("ui.next")}
              isDisabled={page >= pages - 1}
              onPress={() => setPage(page + 1)}
            />
          </>
        )}
      </div>
      <div className="iterations-list">
        {steps.slice(page * PAGE, (page + 1) * PAGE).map((step) => (
          <Button
            key={step.key}
            size="small"
            tone="ghost"
            className={step.key === current ? "is-on" : ""}
            onPress={() => onStep(step.key)}
          >
            <StatusMark status={step.status} size={12} />
            {iterationName(step.key)}
          </Button>
        ))}
      </div>
    </div>
  );
}

/** `3`, or `3.0` in a loop inside a loop. */
function iterationName(key: string): string {
  const numbers: number[] = [];
  for (let around = enclosing(key); around !== null; around = enclosing(around.loop)) numbers.unshift(around.iteration);
  return numbers.join(".");
}

/** A part that the server sends whole when it is requested by itself. */
type ValuePart = "output" | "input" | "logs";
type Part = ValuePart | "config";

function Body({
  step,
  attempt,
  onAttempt,
}: {
  step: StepFold;
  attempt: number | null;
  onAttempt: (attempt: number | null) => void;
}) {
  const { id } = useRunStore();
  const [part, setPart] = useState<Part>("output");
  const shown = attempt ?? step.attempts.at(-1)?.attempt ?? 0;
  const detail = useQuery({
    queryKey: ["step", id, step.key, shown, step.seq],
    queryFn: ({ signal }) =>
      call("GET /v1/runs/{id}/steps/{key}", {
        path: { id, key: step.key },
        query: shown > 0 ? { attempt: shown } : {},
        signal,
      }),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before) => before,
  });
  const own = step.attempts.find((one) => one.attempt === shown) ?? step.attempts.at(-1);
  const error = errorOf(step, shown, detail.data);
  return (
    <div className="panel-body">
      <div className="row wrap">
        <Status status={own?.status ?? step.status} isPill />
        {own?.beganAt != null && own.endedAt !== null && (
          <span className="muted">{t("step.took", { length: formatDuration(own.endedAt - own.beganAt) })}</span>
        )}
        {detail.data?.queuedMs != null && (
          <span className="muted">{t("step.queued", { length: formatDuration(detail.data.queuedMs) })}</span>
        )}
        {step.handle && <span className="muted">→ {step.handle}</span>}
        {step.activity.does === "child" && <Link href={paths.run(step.activity.run)}>{t("step.childRun")}</Link>}
      </div>
      {step.attempts.length > 1 && (
        <div className="row wrap" role="group" aria-label={t("step.attempts")}>
          {step.attempts.map((one) => (
            <Button
              key={one.attempt}
              size="small"
              tone="ghost"
              className={one.attempt === shown ? "is-on" : ""}
              onPress={() => onAttempt(one.attempt)}
            >
              <StatusMark status={one.status} size={12} />
              {t("graph.attempt", { n: one.attempt })}
            </Button>
          ))}
        </div>
      )}
      {error && (
        <div className="panel-error" role="alert">
          <b>{error.code}</b>
          <p>{error.message}</p>
          {"stack" in error && error.stack && <pre>{error.stack}</pre>}
        </div>
      )}
      <Segmented
        label={t("step.part")}
        options={(["output", "input", "logs", "config"] as const).map((name) => ({
          id: name,
          label: t(`step.${name}`),
        }))}
        value={part}
        onChange={setPart}
      />
      {detail.error ? (
        <Problem problem={toProblem(detail.error)} isInline onRetry={() => void detail.refetch()} />
      ) : detail.data ? (
        <PartView id={id} step={step} detail={detail.data} part={part} attempt={shown} />
      ) : (
        <Skeleton rows={4} />
      )}
    </div>
  );
}

function isCut(value: unknown): value is Cut {
  return isObject(value) && Object.keys(value).length === 1 && typeof value.$cut === "number";
}

function linesOf(value: unknown): ShownLine[] {
  return Array.isArray(value) ? value.map((line) => ({ line: String(line), source: null })) : [];
}

interface PartViewProps {
  id: string;
  step: StepFold;
  detail: StepDetail;
  part: Part;
  attempt: number;
}

function PartView({ id, step, detail, part, attempt }: PartViewProps) {
  const [isWhole, setWhole] = useState(false);
  const value: unknown = detail[part];
  const whole = useQuery({
    queryKey: ["step-part", id, step.key, attempt, step.seq, part],
    queryFn: ({ signal }) =>
      call("GET /v1/runs/{id}/steps/{key}", {
        path: { id, key: step.key },
        query: { attempt, part: part as ValuePart },
        signal,
      }),
    enabled: isWhole && part !== "config" && isCut(value),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  if (isCut(value) && !whole.data) {
    return (
      <div className="stack">
        <p className="muted">{t("step.large", { size: formatBytes(value.$cut) })}</p>
        <Button isPending={whole.isFetching} onPress={() => setWhole(true)}>
          {t("step.load")}
        </Button>
      </div>
    );
  }
  const shown = whole.data ? whole.data[part] : value;
  if (part === "logs") return <LogLines lines={linesOf(shown)} isCompact />;
  if (shown === null || shown === undefined) return <p className="faint">{t("step.nothing")}</p>;
  return <JsonTree label={t(`step.${part}`)} value={shown} fileName={`${step.key}-${part}.json`} />;
}
