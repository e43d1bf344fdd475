import { expect, test } from "vitest";
import { changesSince } from "./changes";
import { headsOf } from "./heads.fixture";

test("changes_name_the_entries_since_a_version", () => {
  const heads = headsOf(`
    +0 run started
    +1 step a began task
    +2 step a completed
    +3 run paused
  `).map((head, index) => ({
    ...head,
    event: ["RunStarted", "StepDispatched", "StepCompleted", "RunPaused"][index] ?? "",
  }));
  const [started, begun, done, paused] = heads;
  if (!started || !begun || !done || !paused) throw new Error("four heads");
  done.step = "a";
  expect(changesSince(heads, 2)).toBe("StepCompleted a, RunPaused");
  expect(changesSince(heads, 4)).toBe("");
  expect(changesSince([...heads, ...heads], 2)).toBe(
    "StepCompleted a, RunPaused, RunStarted, StepDispatched, StepCompleted a, 1 more",
  );
});
