import { expect, test } from "vitest";
import type { StepDetail } from "../../../api/types";
import { headsOf } from "./heads.fixture";
import { RunModel } from "./runModel";
import { errorOf } from "./stepError";

function failedStep() {
  const model = new RunModel();
  model.append(
    headsOf(`
      +0 run started
      +1 step charge began task
      +5 step charge failed
      +5 step charge retries due=10
      +10 step charge began task #2
      +15 step charge failed #2`),
  );
  const step = model.fold.steps.get("charge");
  if (!step) throw new Error("the step has begun");
  return step;
}

const whole = (message: string) => ({ code: "BROKEN", message, stack: `Error: ${message}` });

function detailOf(key: string, first: string, second: string): StepDetail {
  const attempts = [first, second].map((message, index) => ({ attempt: index + 1, error: whole(message) }));
  return { key, attempts, error: whole(second) } as unknown as StepDetail;
}

test("the_whole_message_of_each_attempt_is_shown_as_soon_as_it_is_known", () => {
  const step = failedStep();
  const detail = detailOf("charge", "it broke at first", "it broke again");
  expect(errorOf(step, 2, undefined)?.message).toBe("it broke");
  expect(errorOf(step, 1, detail)).toEqual(whole("it broke at first"));
  expect(errorOf(step, 2, detail)).toEqual(whole("it broke again"));
});

test("the_error_of_another_step_is_not_shown", () => {
  const step = failedStep();
  expect(errorOf(step, 2, detailOf("ship", "it broke there", "it broke there"))?.message).toBe("it broke");
  expect(errorOf(step, 2, detailOf("charge", "other", "other"))?.message).toBe("it broke");
});
