// Why a run does not continue at some entry, in one sentence. The server says it for the present.

import { t } from "../../../lib/i18n";
import { formatClock } from "../../../lib/time";
import { type Fold, type StepFold, statusOf } from "./fold";

const NAMED_MAX = 3;

export function sentenceAt(fold: Fold): string | null {
  const status = statusOf(fold);
  if (status !== "waiting" && status !== "running") return null;
  const steps = [...fold.open].map((key) => fold.steps.get(key)).filter((step): step is StepFold => step !== undefined);
  const leaves = steps.filter((step) => step.activity.does !== "body");
  const named = leaves.slice(0, NAMED_MAX).map(describe);
  const more = leaves.length - named.length;
  const { place } = fold.run;
  const parts = [
    ...(place === null ? [] : [t("sentence.state", { state: place.state, time: formatClock(place.enteredAt) })]),
    ...named,
    ...(more > 0 ? [t("sentence.more", { n: more })] : []),
  ];
  return parts.length === 0 ? null : parts.join("; ");
}

/** A time that the server writes into a sentence. A match in the sentence may contain other times: those are data. */
const TIME = /(?<=\b(?:since|until|at) )(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)/;

/** The texts of a sentence of the server, and the times between them: text, time, text, time, text. */
export function splitAtTimes(sentence: string): string[] {
  return sentence.split(TIME);
}

function describe(step: StepFold): string {
  const name = step.key;
  const isRetried = step.status === "waiting" && step.attempts.at(-1)?.status === "failed";
  if (isRetried && step.due !== null) return t("sentence.retry", { step: name, time: formatClock(step.due) });
  switch (step.activity.does) {
    case "sleep":
      return step.due === null
        ? t("sentence.task", { step: name })
        : t("sentence.sleep", { step: name, time: formatClock(step.due) });
    case "wait":
      return t("sentence.wait", { step: name, event: step.activity.event });
    case "child":
      return t("sentence.child", { step: name, workflow: step.activity.workflow });
    default:
      return t("sentence.task", { step: name });
  }
}
