// The differences between two runs of one workflow.
//
// 1. Steps are compared by their key.
// 2. A step differs in its status, its output, its handle, the number of its attempts, or if one took twice as long.
// 3. The first divergence is the earliest step that differs in more than its duration.

import type { Step } from "../../../api/types";
import { compare } from "../../../lib/json";

export type Aspect = "status" | "output" | "handle" | "attempts" | "duration";

export interface StepDifference {
  key: string;
  node: string;
  kind: "onlyA" | "onlyB" | "changed";
  aspects: readonly Aspect[];
  a: Step | null;
  b: Step | null;
  /** The place in the order in which the steps began. */
  order: number;
}

export interface RunDifference {
  first: StepDifference | null;
  differences: readonly StepDifference[];
  equal: number;
}

const RATIO = 2;
/** A shorter difference is noise. */
const DURATION_MIN_MS = 20;

export function diffSteps(left: readonly Step[], right: readonly Step[]): RunDifference {
  const [a, b] = [byKey(left), byKey(right)];
  const differences: StepDifference[] = [];
  let equal = 0;
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    const [one, other] = [a.get(key) ?? null, b.get(key) ?? null];
    const aspects = one && other ? aspectsOf(one, other) : [];
    if (one && other && aspects.length === 0) {
      equal += 1;
      continue;
    }
    const kind = one === null ? "onlyB" : other === null ? "onlyA" : "changed";
    const order = Math.min(one?.seq ?? Number.POSITIVE_INFINITY, other?.seq ?? Number.POSITIVE_INFINITY);
    differences.push({ key, node: (one ?? other)?.node ?? key, kind, aspects, a: one, b: other, order });
  }
  differences.sort((x, y) => x.order - y.order);
  const first = differences.find(
    (one) => one.kind !== "changed" || one.aspects.some((aspect) => aspect !== "duration"),
  );
  return { first: first ?? null, differences, equal };
}

/** Steps that were skipped are left out: the branch that was taken says it. */
function byKey(steps: readonly Step[]): Map<string, Step> {
  return new Map(steps.filter((step) => step.status !== "skipped").map((step) => [step.key, step]));
}

function aspectsOf(a: Step, b: Step): Aspect[] {
  const found: Aspect[] = [];
  if (a.status !== b.status) found.push("status");
  if (a.handle !== b.handle) found.push("handle");
  if (compare(a.output, b.output, 1).length > 0) found.push("output");
  if (a.attempts.length !== b.attempts.length) found.push("attempts");
  if (tookLonger(a.durationMs, b.durationMs)) found.push("duration");
  return found;
}

function tookLonger(a: number | null, b: number | null): boolean {
  if (a === null || b === null) return false;
  const [less, more] = [Math.min(a, b), Math.max(a, b)];
  return more - less >= DURATION_MIN_MS && more > less * RATIO;
}
