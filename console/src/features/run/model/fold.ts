// The state of a run as its readers see it after some entry, and how updates change it.
//
// The server interprets the journal and sends updates; this module only applies them. Records are never changed in
// place: an update replaces the record of its step and of its node, so that a component that shows another one keeps
// what it has.

import type { ActivityHead, FailureHead, Head, HeadUpdateRun, HeadUpdateStep } from "../../../api/types";
import type { RunStatus, StepStatus } from "../../../lib/status";
import { toMs } from "../../../lib/time";
import { LayeredMap } from "./layeredMap";

export interface AttemptFold {
  attempt: number;
  beganAt: number | null;
  /** When the work began; before, the attempt was queued. */
  startedAt: number | null;
  endedAt: number | null;
  status: StepStatus;
  error: FailureHead | null;
  /** When the next attempt begins, if this one failed and is retried. */
  retriesAt: number | null;
}

export interface StepFold {
  key: string;
  node: string;
  type: string | null;
  status: StepStatus;
  activity: ActivityHead;
  attempts: readonly AttemptFold[];
  since: number | null;
  endedAt: number | null;
  due: number | null;
  handle: string | null;
  error: FailureHead | null;
  firstSeq: number;
  seq: number;
}

export type StatusCounts = Readonly<Record<StepStatus, number>>;

/** All steps of one node: one, or one per iteration of the loops around it. */
export interface NodeFold {
  node: string;
  type: string | null;
  total: number;
  counts: StatusCounts;
  /** The handles by which its steps have completed; the empty text for the default one. */
  handles: readonly string[];
  /** The step that changed last. */
  latest: StepFold;
}

/** A turn of a code workflow: a worker holds the run. */
export interface TurnFold {
  worker: string | null;
  beganAt: number;
  endedAt: number | null;
  isLost: boolean;
  firstSeq: number;
}

/** The state that a machine is in. */
export interface PlaceFold {
  state: string;
  enteredAt: number;
}

export interface RunFold {
  seq: number;
  at: number | null;
  status: RunStatus;
  startedAt: number | null;
  endedAt: number | null;
  failure: FailureHead | null;
  failedStep: string | null;
  reason: string | null;
  worker: string | null;
  turns: readonly TurnFold[];
  /** A state machine without open steps waits for people. */
  isMachine: boolean;
  /** The state of a machine; null before it has entered its first one, and for other runs. */
  place: PlaceFold | null;
}

export interface Fold {
  run: RunFold;
  steps: LayeredMap<string, StepFold>;
  nodes: Map<string, NodeFold>;
  /** Keys of the steps that have not ended. */
  open: Set<string>;
}

const NO_COUNTS: StatusCounts = {
  pending: 0,
  running: 0,
  waiting: 0,
  completed: 0,
  failed: 0,
  skipped: 0,
  cancelled: 0,
};

export function emptyFold(): Fold {
  const run: RunFold = {
    seq: 0,
    at: null,
    status: "pending",
    startedAt: null,
    endedAt: null,
    failure: null,
    failedStep: null,
    reason: null,
    worker: null,
    turns: [],
    isMachine: false,
    place: null,
  };
  return { run, steps: new LayeredMap(), nodes: new Map(), open: new Set() };
}

/** A copy that further updates do not change. */
export function copyFold(fold: Fold): Fold {
  return { run: fold.run, steps: fold.steps.copy(), nodes: new Map(fold.nodes), open: new Set(fold.open) };
}

/** Applies the next head. Changes the maps of the fold, not their records. */
export function applyHead(fold: Fold, head: Head): void {
  fold.run = { ...fold.run, seq: head.seq, at: toMs(head.at) };
  for (const update of head.updates) {
    if (update.of === "run") fold.run = applyRun(fold.run, update);
    else applyStep(fold, update, head);
  }
}

/** The status of the run: a run of which no step is performed waits. Deliveries do not make a state machine busy. */
export function statusOf(fold: Fold): RunStatus {
  if (fold.run.status !== "running") return fold.run.status;
  if (fold.run.isMachine) return "waiting";
  let holds = false;
  for (const key of fold.open) {
    const step = fold.steps.get(key);
    if (step === undefined) continue;
    if (step.status === "running" && isWork(step.activity)) return "running";
    if (step.status === "waiting" || step.activity.does === "body") holds = true;
  }
  return holds ? "waiting" : "running";
}

export function isOpenStatus(status: StepStatus): boolean {
  return status === "pending" || status === "running" || status === "waiting";
}

function isWork(activity: ActivityHead): boolean {
  return activity.does === "task" || activity.does === "instant";
}

function applyRun(run: RunFold, update: HeadUpdateRun): RunFold {
  const at = toMs(update.at);
  switch (update.change) {
    case "started":
      return { ...run, status: "running", startedAt: run.startedAt ?? at };
    case "turnStarted": {
      const worker = update.worker ?? null;
      const turn: TurnFold = { worker, beganAt: at, endedAt: null, isLost: false, firstSeq: update.seq };
      return { ...run, worker, turns: [...endTurn(run.turns, at, false), turn] };
    }
    case "turnLost":
      return { ...run, worker: null, turns: endTurn(run.turns, at, true) };
    case "moved": {
      const state = update.machine?.to;
      return { ...run, isMachine: true, place: state ? { state, enteredAt: at } : run.place };
    }
    case "voted":
    case "assigned":
      return { ...run, isMachine: true };
    case "paused":
      return {
        ...run,
        status: "paused",
        worker: null,
        failure: update.failure ?? null,
        turns: endTurn(run.turns, at, false),
      };
    case "resumed":
    case "retried":
      return { ...run, status: "running", endedAt: null, failure: null, failedStep: null };
    case "completed":
    case "failed":
    case "cancelled":
      return {
        ...run,
        status: update.change,
        endedAt: at,
        worker: null,
        failure: update.change === "cancelled" ? run.failure : (update.failure ?? null),
        failedStep: update.failedStep ?? null,
        reason: update.reason ?? null,
        turns: endTurn(run.turns, at, false),
      };
  }
}

function endTurn(turns: readonly TurnFold[], at: number, isLost: boolean): readonly TurnFold[] {
  const last = turns.at(-1);
  if (last === undefined || last.endedAt !== null) return turns;
  return [...turns.slice(0, -1), { ...last, endedAt: at, isLost }];
}

function applyStep(fold: Fold, update: HeadUpdateStep, head: Head): void {
  const before = fold.steps.get(update.step);
  const step = changeStep(before ?? newStep(update), update, head);
  fold.steps.set(update.step, step);
  if (isOpenStatus(step.status)) fold.open.add(step.key);
  else fold.open.delete(step.key);
  fold.nodes.set(step.node, changeNode(fold.nodes.get(step.node), before, step, update));
}

function newStep(update: HeadUpdateStep): StepFold {
  return {
    key: update.step,
    node: update.node,
    type: update.type ?? null,
    status: "pending",
    activity: { does: "task" },
    attempts: [],
    since: null,
    endedAt: null,
    due: null,
    handle: null,
    error: null,
    firstSeq: update.seq,
    seq: update.seq,
  };
}

function changeNode(
  node: NodeFold | undefined,
  before: StepFold | undefined,
  step: StepFold,
  update: HeadUpdateStep,
): NodeFold {
  const counts = { ...(node?.counts ?? NO_COUNTS) };
  if (before) counts[before.status] -= 1;
  counts[step.status] += 1;
  const handles = node?.handles ?? [];
  const handle = step.handle ?? "";
  const isNew = update.change === "completed" && !handles.includes(handle);
  return {
    node: step.node,
    type: step.type ?? node?.type ?? null,
    total: (node?.total ?? 0) + (before ? 0 : 1),
    counts,
    handles: isNew ? [...handles, handle] : handles,
    latest: step,
  };
}

function changeStep(step: StepFold, update: HeadUpdateStep, head: Head): StepFold {
  const at = toMs(update.at);
  const next: StepFold = { ...step, seq: update.seq, status: update.status, type: step.type ?? update.type ?? null };
  const due = update.due ? toMs(update.due) : null;
  switch (update.change) {
    case "began": {
      const beganAt = update.since ? toMs(update.since) : at;
      return {
        ...next,
        since: step.since ?? beganAt,
        endedAt: null,
        error: null,
        due,
        activity: update.activity ?? { does: "task" },
        attempts: [...loseOpen(step.attempts, beganAt), newAttempt(update, beganAt)],
      };
    }
    case "completed":
    case "failed": {
      const error = update.error ?? null;
      const since = update.since ? toMs(update.since) : null;
      const known = step.attempts.at(-1)?.attempt === update.attempt;
      const attempts = known ? step.attempts : [...loseOpen(step.attempts, since ?? at), newAttempt(update, since)];
      const startedAt = head.startedAt ? toMs(head.startedAt) : null;
      return {
        ...next,
        since: step.since ?? since,
        endedAt: at,
        due: step.activity.does === "sleep" ? step.due : null,
        handle: update.handle ?? null,
        error,
        attempts: changeLast(attempts, { status: update.status, endedAt: at, startedAt, error }),
      };
    }
    case "skipped":
      return { ...next, endedAt: at };
    case "retries":
      return { ...next, due, error: null, attempts: changeLast(step.attempts, { retriesAt: due }) };
    case "paces":
      return { ...next, due };
    case "retryDue":
    case "paceDue":
      return { ...next, due: null };
    case "cancelled":
      return { ...next, endedAt: at, attempts: endOpen(step.attempts, at) };
    case "reopened":
      return { ...next, endedAt: null, error: null, attempts: reopenLast(step.attempts, update.status) };
  }
}

function newAttempt(update: HeadUpdateStep, beganAt: number | null): AttemptFold {
  return {
    attempt: update.attempt,
    beganAt,
    startedAt: null,
    endedAt: null,
    status: update.status,
    error: null,
    retriesAt: null,
  };
}

function changeLast(attempts: readonly AttemptFold[], change: Partial<AttemptFold>): readonly AttemptFold[] {
  const last = attempts.at(-1);
  return last === undefined ? attempts : [...attempts.slice(0, -1), { ...last, ...change }];
}

/** An open attempt that is replaced was lost: it has no result. */
function loseOpen(attempts: readonly AttemptFold[], at: number): readonly AttemptFold[] {
  return endOpen(attempts, at);
}

function endOpen(attempts: readonly AttemptFold[], at: number): readonly AttemptFold[] {
  return attempts.at(-1)?.endedAt === null ? changeLast(attempts, { status: "cancelled", endedAt: at }) : attempts;
}

function reopenLast(attempts: readonly AttemptFold[], status: StepStatus): readonly AttemptFold[] {
  return attempts.at(-1)?.status === "cancelled" ? changeLast(attempts, { status, endedAt: null }) : attempts;
}
