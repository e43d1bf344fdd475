// Two runs of one workflow side by side: the first divergence first.

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import { useRun, useWorkflow } from "../../../api/queries";
import type { Run, Step } from "../../../api/types";
import { t, tWord } from "../../../lib/i18n";
import { shortId } from "../../../lib/id";
import { compare, type Difference, pathExpression, summarize } from "../../../lib/json";
import { formatDuration } from "../../../lib/time";
import { paths, useSearchState } from "../../../lib/url";
import { Empty, Link, Note, Page, Pressable, Problem, Segmented, Skeleton, Status, Tag } from "../../../ui";
import { readGraph } from "../model/graphModel";
import { diffSteps, type RunDifference, type StepDifference } from "./diffModel";
import "./diff.css";

const GraphCanvas = lazy(() => import("../canvas/GraphCanvas").then((module) => ({ default: module.GraphCanvas })));

function useSteps(id: string) {
  return useQuery({
    queryKey: ["steps", id],
    queryFn: async ({ signal }) => {
      const all: Step[] = [];
      let cursor: string | undefined;
      do {
        const page: { steps: Step[]; nextCursor: string | null } = await call("GET /v1/runs/{id}/steps", {
          path: { id },
          query: { limit: 500, cursor },
          signal,
        });
        all.push(...page.steps);
        cursor = page.nextCursor ?? undefined;
      } while (cursor);
      return all;
    },
  });
}

export function DiffScreen({ a, b }: { a: string; b: string }) {
  const [runA, runB, stepsA, stepsB] = [useRun(a), useRun(b), useSteps(a), useSteps(b)];
  const error = runA.error ?? runB.error ?? stepsA.error ?? stepsB.error;
  const difference = useMemo(
    () => (stepsA.data && stepsB.data ? diffSteps(stepsA.data, stepsB.data) : null),
    [stepsA.data, stepsB.data],
  );
  return (
    <Page title={t("diff.title")} parent={{ label: t("nav.runs"), href: "/runs" }}>
      {error ? (
        <Problem problem={toProblem(error)} />
      ) : runA.data && runB.data && difference ? (
        <Compared a={runA.data} b={runB.data} difference={difference} />
      ) : (
        <Skeleton rows={12} />
      )}
    </Page>
  );
}

const VIEWS = ["list", "graph", "input", "output"] as const;

function Compared({ a, b, difference }: { a: Run; b: Run; difference: RunDifference }) {
  const { params, set } = useSearchState();
  const view = VIEWS.find((name) => name === params.get("view")) ?? "list";
  const setView = (next: string) => set({ view: next === "list" ? null : next });
  const [selected, setSelected] = useState<string | null>(difference.first?.key ?? null);
  const isSame = a.workflow === b.workflow;
  return (
    <div className="diff">
      <div className="diff-heads">
        <RunHead run={a} side="A" />
        <RunHead run={b} side="B" />
      </div>
      {!isSame && <Note className="diff-note">{t("diff.otherWorkflow")}</Note>}
      <div className="run-bar">
        <Segmented
          label={t("diff.view")}
          options={VIEWS.map((name) => ({
            id: name,
            label: t(`diff.${name}`),
          }))}
          value={view}
          onChange={setView}
        />
        <span className="muted">
          {t("diff.summary", { n: difference.differences.length, equal: difference.equal })}
        </span>
      </div>
      {view === "list" && <List difference={difference} selected={selected} onSelect={setSelected} />}
      {view === "graph" && (
        <Drawn run={b} difference={difference} onSelect={setSelected} onList={() => setView("list")} />
      )}
      {view === "input" && <Values before={a.input} after={b.input} />}
      {view === "output" && <Values before={a.error ?? a.output} after={b.error ?? b.output} />}
    </div>
  );
}

function RunHead({ run, side }: { run: Run; side: string }) {
  return (
    <div className="diff-head">
      <b className="diff-side">{side}</b>
      <span className="cut">
        {run.workflow} <span className="faint">v{run.workflowVersion}</span>
      </span>
      <Link href={paths.run(run.id)}>
        <span className="mono">{shortId(run.id)}</span>
      </Link>
      <Status status={run.status} isPill />
    </div>
  );
}

interface ListProps {
  difference: RunDifference;
  selected: string | null;
  onSelect: (key: string) => void;
}

function List({ difference, selected, onSelect }: ListProps) {
  const { first, differences } = difference;
  if (differences.length === 0) return <Empty icon="check" title={t("diff.equal")} />;
  const shown = differences.find((one) => one.key === selected) ?? first ?? differences[0];
  return (
    <div className="diff-columns">
      <ul className="diff-list" aria-label={t("diff.list")}>
        {differences.map((one) => (
          <li key={one.key}>
            <Pressable
              className={one.key === shown?.key ? "diff-row selected" : "diff-row"}
              isCurrent={one.key === shown?.key}
              onPress={() => onSelect(one.key)}
            >
              <i className={`diff-mark ${one.kind}`} />
              <span className="grow cut mono" title={one.key}>
                {one.key}
              </span>
              {one === first && <Tag>{t("diff.first")}</Tag>}
              <span className="muted">
                {one.kind === "changed"
                  ? one.aspects.map((aspect) => tWord("aspect", aspect)).join(", ")
                  : t(`diff.${one.kind}`)}
              </span>
            </Pressable>
          </li>
        ))}
      </ul>
      {shown && <Detail key={shown.key} difference={shown} />}
    </div>
  );
}

function Detail({ difference }: { difference: StepDifference }) {
  const { a, b } = difference;
  return (
    <section className="diff-detail" aria-label={difference.key}>
      <h2 className="mono cut">{difference.key}</h2>
      <div className="diff-pair">
        {[a, b].map((step, index) => (
          <div key={index === 0 ? "A" : "B"} className="diff-facts">
            <b className="diff-side">{index === 0 ? "A" : "B"}</b>
            {step ? (
              <>
                <Status status={step.status} />
                <span className="muted">{t("diff.attempts", { n: step.attempts.length })}</span>
                {step.durationMs !== null && <span className="muted">{formatDuration(step.durationMs)}</span>}
                {step.handle && <span className="muted">→ {step.handle}</span>}
                {step.error && <span className="journal-error">{`${step.error.code}: ${step.error.message}`}</span>}
              </>
            ) : (
              <span className="faint">{t("diff.absent")}</span>
            )}
          </div>
        ))}
      </div>
      {a && b && <Lines changes={compare(a.output, b.output)} />}
    </section>
  );
}

function Values({ before, after }: { before: unknown; after: unknown }) {
  const changes = compare(before, after);
  return (
    <div className="ui-scroll diff-values">
      {changes.length === 0 ? <Empty icon="check" title={t("diff.sameValue")} /> : <Lines changes={changes} />}
    </div>
  );
}

function Lines({ changes }: { changes: readonly Difference[] }) {
  if (changes.length === 0) return <p className="faint">{t("diff.sameValue")}</p>;
  return (
    <ul className="changes">
      {changes.map((change) => (
        <li key={pathExpression("$", change.path)}>
          <code className="path">{pathExpression("$", change.path)}</code>
          {change.kind !== "added" && <code className="before">{summarize(change.before, 400)}</code>}
          {change.kind !== "removed" && <code className="after">{summarize(change.after, 400)}</code>}
        </li>
      ))}
    </ul>
  );
}

interface DrawnProps {
  run: Run;
  difference: RunDifference;
  onSelect: (key: string) => void;
  onList: () => void;
}

const MARKS = { onlyA: "there", onlyB: "here", changed: "changed" } as const;

function Drawn({ run, difference, onSelect, onList }: DrawnProps) {
  const workflow = useWorkflow(run.workflow, run.workflowVersion);
  const graph = useMemo(() => readGraph(workflow.data?.definition), [workflow.data]);
  const byNode = useMemo(
    () => new Map([...difference.differences].reverse().map((one) => [one.node, one])),
    [difference],
  );
  if (workflow.isPending) return <Skeleton />;
  if (graph.nodes.length === 0) return <Empty icon="workflow" title={t("workflow.noGraph")} />;
  return (
    <Suspense fallback={<Skeleton />}>
      <GraphCanvas
        graph={graph}
        useNode={() => undefined}
        selected={null}
        markOf={(id) => {
          const found = byNode.get(id);
          return found ? MARKS[found.kind] : null;
        }}
        onSelect={(node) => {
          const found = byNode.get(node.id);
          if (!found) return;
          onSelect(found.key);
          onList();
        }}
      />
    </Suspense>
  );
}
