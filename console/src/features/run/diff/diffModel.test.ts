import { expect, test } from "vitest";
import type { Step } from "../../../api/types";
import { diffSteps } from "./diffModel";

function step(key: string, seq: number, change: Partial<Step> = {}): Step {
  const attempts: Step["attempts"] = [
    { attempt: 1, dispatchedAt: null, endedAt: null, status: "completed", error: null },
  ];
  return {
    key,
    node: key,
    type: null,
    seq,
    status: "completed",
    attempts,
    startedAt: null,
    endedAt: null,
    durationMs: 10,
    output: null,
    error: null,
    handle: null,
    ...change,
  };
}

test("the_first_divergence_is_the_earliest_step_that_differs_in_more_than_its_duration", () => {
  const a = [step("one", 2, { durationMs: 10 }), step("two", 4, { output: { total: 1 } }), step("left", 6)];
  const b = [step("one", 2, { durationMs: 900 }), step("two", 4, { output: { total: 2 } }), step("right", 6)];
  const { first, differences, equal } = diffSteps(a, b);
  expect(differences.map((one) => `${one.key} ${one.kind} ${one.aspects.join()}`)).toEqual([
    "one changed duration",
    "two changed output",
    "left onlyA ",
    "right onlyB ",
  ]);
  expect([first?.key, equal]).toEqual(["two", 0]);
});

test("equal_runs_do_not_differ", () => {
  const steps = [step("one", 2), step("skipped", 3, { status: "skipped" })];
  expect(diffSteps(steps, steps)).toEqual({ first: null, differences: [], equal: 1 });
});
