// The error of an attempt: the journal's heads have its beginning, the details of the step the whole.

import type { FailureHead, StepDetail, Error as WholeError } from "../../../api/types";
import type { StepFold } from "./fold";

/** The error of an attempt, as long as it is known. The details may still be those of another step or attempt. */
export function errorOf(
  step: StepFold,
  attempt: number,
  detail: StepDetail | undefined,
): WholeError | FailureHead | null {
  const own = step.attempts.find((one) => one.attempt === attempt) ?? step.attempts.at(-1);
  const head = own?.error ?? step.error;
  if (head === null || detail?.key !== step.key) return head;
  const whole = detail.attempts.find((one) => one.attempt === own?.attempt)?.error ?? detail.error;
  // After a new attempt the details are those of the past until they are read again.
  return whole?.code === head.code && whole.message.startsWith(head.message) ? whole : head;
}
