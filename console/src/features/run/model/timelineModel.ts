// The rows and bars of the timeline.
//
// 1. A row is a step key. The steps inside a loop or scope, or of a child run, are rows below it while it is open.
// 2. Open steps come first, then the others in the order in which they began.
// 3. A bar is a part of an attempt: queued, working, waiting, backing off before the next attempt, or lost.

import type { StepStatus } from "../../../lib/status";
import { enclosing, lastName } from "../../../lib/stepKey";
import { type AttemptFold, type Fold, isOpenStatus, type StepFold, type TurnFold } from "./fold";

export type BarKind = "queued" | "work" | "wait" | "backoff" | "body" | "lost" | "turn";

export interface Bar {
  kind: BarKind;
  from: number;
  /** Null while it lasts. */
  to: number | null;
  status: StepStatus;
  attempt: number;
}

export interface TimelineRow {
  /** The step key; in a child run, the id of the run, `/` and the step key. */
  id: string;
  /** The child run that it belongs to; null for the run on screen. */
  run: string | null;
  label: string;
  depth: number;
  /** The step; null for the row of the turns. */
  step: StepFold | null;
  status: StepStatus;
  bars: readonly Bar[];
  /** How many steps are inside it. */
  inside: number;
  /** The child run that the step has started. */
  child: string | null;
  /** Whether it has rows below it while it is open. */
  canOpen: boolean;
  isOpen: boolean;
}

/** The folds of child runs, by run, as far as they are read. */
export type ChildFolds = ReadonlyMap<string, Fold>;
const NO_CHILDREN: ChildFolds = new Map();

/** The row of the turns of a code workflow. */
export const TURNS_ROW = "@turns";

export function timelineRows(
  fold: Fold,
  opened: ReadonlySet<string>,
  children: ChildFolds = NO_CHILDREN,
): TimelineRow[] {
  const rows: TimelineRow[] = [];
  appendRun(rows, { fold, run: null, depth: 0 }, opened, children);
  return rows;
}

interface Part {
  fold: Fold;
  run: string | null;
  depth: number;
}

function appendRun(
  rows: TimelineRow[],
  { fold, run, depth }: Part,
  opened: ReadonlySet<string>,
  children: ChildFolds,
): void {
  const inside = stepsByLoop(fold);
  const idOf = (key: string) => (run === null ? key : `${run}/${key}`);
  if (fold.run.turns.length > 0) rows.push({ ...turnsRow(fold.run.turns), id: idOf(TURNS_ROW), run, depth });
  const visit = (parent: string, depth: number) => {
    for (const step of inOrder(inside.get(parent) ?? [])) {
      if (step.status === "skipped") continue;
      const count = inside.get(step.key)?.length ?? 0;
      const child = step.activity.does === "child" ? step.activity.run : null;
      const canOpen = count > 0 || child !== null;
      const isOpen = canOpen && opened.has(idOf(step.key));
      const { key, status } = step;
      const bars = barsOf(step);
      rows.push({
        ...{ id: idOf(key), run, label: labelOf(key, parent), depth, step, status, bars },
        ...{ inside: count, child, canOpen, isOpen },
      });
      if (!isOpen) continue;
      visit(key, depth + 1);
      const started = child === null ? undefined : children.get(child);
      if (child !== null && started) appendRun(rows, { fold: started, run: child, depth: depth + 1 }, opened, children);
    }
  };
  visit("", depth);
}

/** The steps inside each loop and scope; those outside of all under the empty text. */
function stepsByLoop(fold: Fold): Map<string, StepFold[]> {
  const inside = new Map<string, StepFold[]>();
  for (const step of fold.steps.values()) {
    const parent = enclosing(step.key)?.loop ?? "";
    const list = inside.get(parent);
    if (list) list.push(step);
    else inside.set(parent, [step]);
  }
  return inside;
}

function labelOf(key: string, parent: string): string {
  if (parent === "") return key;
  return `${key.slice(parent.length, key.length - lastName(key).length - 1)} ${lastName(key)}`;
}

function inOrder(steps: readonly StepFold[]): StepFold[] {
  const place = (step: StepFold) => (isOpenStatus(step.status) ? 0 : 1);
  return [...steps].sort((a, b) => place(a) - place(b) || a.firstSeq - b.firstSeq);
}

function turnsRow(turns: readonly TurnFold[]): TimelineRow {
  const bars = turns.map<Bar>((turn, index) => ({
    kind: turn.isLost ? "lost" : "turn",
    from: turn.beganAt,
    to: turn.endedAt,
    status: turn.endedAt === null ? "running" : turn.isLost ? "failed" : "completed",
    attempt: index + 1,
  }));
  const status = turns.at(-1)?.endedAt === null ? "running" : "completed";
  const closed = { inside: 0, child: null, canOpen: false, isOpen: false };
  return { id: TURNS_ROW, run: null, label: "", depth: 0, step: null, status, bars, ...closed };
}

export function barsOf(step: StepFold): Bar[] {
  return step.attempts.flatMap((attempt, index) => attemptBars(step, attempt, step.attempts[index + 1]));
}

function attemptBars(step: StepFold, attempt: AttemptFold, next: AttemptFold | undefined): Bar[] {
  if (attempt.beganAt === null) return [];
  const { status } = attempt;
  const part = (kind: BarKind, from: number, to: number | null): Bar => ({
    kind,
    from,
    to,
    status,
    attempt: attempt.attempt,
  });
  const bars: Bar[] = [];
  const kind = kindOf(step, attempt);
  if (attempt.startedAt !== null && attempt.startedAt > attempt.beganAt) {
    bars.push(part("queued", attempt.beganAt, attempt.startedAt), part(kind, attempt.startedAt, attempt.endedAt));
  } else {
    bars.push(part(kind, attempt.beganAt, attempt.endedAt));
  }
  if (attempt.retriesAt !== null && attempt.endedAt !== null) {
    const isPending = next === undefined && isOpenStatus(step.status);
    bars.push(part("backoff", attempt.endedAt, next?.beganAt ?? (isPending ? null : attempt.retriesAt)));
  }
  return bars;
}

function kindOf(step: StepFold, attempt: AttemptFold): BarKind {
  if (attempt.status === "cancelled" && attempt !== step.attempts.at(-1)) return "lost";
  switch (step.activity.does) {
    case "sleep":
    case "wait":
    case "child":
      return "wait";
    case "body":
      return "body";
    default:
      return "work";
  }
}

/** A part of the time axis. A squeezed part is a gap that is drawn as a mark of fixed width. */
export interface Segment {
  from: number;
  to: number;
  /** The place on the axis, from 0 to 1. */
  start: number;
  end: number;
  isSqueezed: boolean;
}

/** Gaps longer than this part of the whole are cut. */
const GAP_MIN = 0.05;
/** The width of a cut gap on the axis. */
const GAP_WIDTH = 0.02;

/** The axis from the first to the last moment. With `squeeze`, times at which nothing works are cut. */
export function axis(rows: readonly TimelineRow[], now: number, squeeze: boolean): Segment[] {
  const bars = rows.flatMap((row) => row.bars);
  if (bars.length === 0) return [];
  const from = bars.reduce((least, bar) => Math.min(least, bar.from), Number.POSITIVE_INFINITY);
  const to = Math.max(
    from + 1,
    bars.reduce((most, bar) => Math.max(most, bar.to ?? now), from),
  );
  if (!squeeze) return [{ from, to, start: 0, end: 1, isSqueezed: false }];
  const gaps = idleGaps(bars, from, to, now);
  if (gaps.length === 0) return [{ from, to, start: 0, end: 1, isSqueezed: false }];
  const idle = gaps.reduce((sum, gap) => sum + (gap.to - gap.from), 0);
  const scale = (1 - gaps.length * GAP_WIDTH) / Math.max(1, to - from - idle);
  const segments: Segment[] = [];
  let [time, place] = [from, 0];
  for (const gap of [...gaps, null]) {
    const end = gap?.from ?? to;
    const width = (end - time) * scale;
    if (end > time) segments.push({ from: time, to: end, start: place, end: place + width, isSqueezed: false });
    place += width;
    if (gap) {
      segments.push({ ...gap, start: place, end: place + GAP_WIDTH, isSqueezed: true });
      place += GAP_WIDTH;
      time = gap.to;
    }
  }
  return segments;
}

/** Times at which no step is performed, longer than GAP_MIN of the whole. */
function idleGaps(bars: readonly Bar[], from: number, to: number, now: number): Array<{ from: number; to: number }> {
  const busy = bars
    .filter((bar) => bar.kind === "work" || bar.kind === "queued" || bar.kind === "turn")
    .map((bar) => ({ from: bar.from, to: bar.to ?? now }))
    .sort((a, b) => a.from - b.from);
  const least = (to - from) * GAP_MIN;
  const gaps: Array<{ from: number; to: number }> = [];
  let end = from;
  for (const span of [...busy, { from: to, to }]) {
    if (span.from - end > least) gaps.push({ from: end, to: span.from });
    end = Math.max(end, span.to);
  }
  return gaps;
}

/** The place of a moment on the axis, from 0 to 1. */
export function placeOf(segments: readonly Segment[], time: number): number {
  const last = segments.at(-1);
  if (last === undefined) return 0;
  for (const segment of segments) {
    if (time <= segment.to) {
      const part = (time - segment.from) / Math.max(1e-9, segment.to - segment.from);
      return segment.start + Math.max(0, part) * (segment.end - segment.start);
    }
  }
  return last.end;
}

/** The moment at a place of the axis. */
export function timeAt(segments: readonly Segment[], place: number): number {
  const found = segments.find((segment) => place <= segment.end) ?? segments.at(-1);
  if (found === undefined) return 0;
  const part = (place - found.start) / Math.max(1e-9, found.end - found.start);
  return found.from + part * (found.to - found.from);
}
