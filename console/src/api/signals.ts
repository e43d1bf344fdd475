// Signals to runs, and their outcomes.

import { t } from "../lib/i18n";
import { isObject } from "../lib/json";
import { call } from "./client";
import { type Conditions, sendAtVersion } from "./conditions";
import type { Outcome, Run } from "./types";

export interface Signal {
  run: string;
  event: string;
  payload: unknown;
  /** The wait that the person answers; null if the run has none for this signal. */
  wait: { step: string; since: string | null } | null;
}

export interface Approval {
  run: string;
  signal: string;
  /** The JSON that the payload must contain. */
  match: unknown;
  wait: { step: string; since: string | null };
  isApproved: boolean;
  comment: string;
}

export interface Decided {
  outcome: Outcome;
  /** The decision in the journal, if the server has answered that it has one already; null if that is not known. */
  recorded: boolean | null;
}

/** Sends a signal to the wait that the person sees. */
export function sendSignal(signal: Signal, conditions: Conditions): Promise<Outcome> {
  const { run, event, payload } = signal;
  const send = (headers: Record<string, string>) =>
    call("POST /v1/runs/{id}/signals/{event}", { path: { id: run, event }, body: payload as never, headers });
  return sendAtVersion(run, conditions, send, (now) => isUnchanged(now, signal));
}

/** Whether the wait that a signal answers is open as it was. */
function isUnchanged(run: Run, { event, wait }: Signal): boolean {
  if (run.status === "paused" || wait === null) return false;
  return run.open.some((open) => open.step === wait.step && open.since === wait.since && open.event === event);
}

/** Sends the signal that approves or rejects. */
export async function sendApproval(approval: Approval, conditions: Conditions): Promise<Decided> {
  const { run, signal, match, wait, isApproved } = approval;
  const comment = approval.comment.trim();
  const payload = { ...(isObject(match) ? match : {}), approved: isApproved, ...(comment === "" ? {} : { comment }) };
  const outcome = await sendSignal({ run, event: signal, payload, wait }, conditions);
  return { outcome, recorded: outcome.outcome === "repeated" ? await readDecision(run, wait.step) : null };
}

/** The decision that the journal has for a step; null if it cannot be read. */
async function readDecision(run: string, step: string): Promise<boolean | null> {
  try {
    const { output } = await call("GET /v1/runs/{id}/steps/{key}", { path: { id: run, key: step } });
    return isObject(output) && typeof output.approved === "boolean" ? output.approved : null;
  } catch {
    return null;
  }
}

/**
 * Why a request changed nothing; null if it has an effect. The server answers such a request with 200: another person may
 * have decided before.
 */
export function ignoredReason({ outcome, reason }: Outcome): string | null {
  return outcome === "ignored" ? (reason ?? t("action.ignored")) : null;
}

export interface Notice {
  text: string;
  tone: "good" | "bad";
}

/** The notice after a decision. It names the decision that the run has, which may differ from the one that was sent. */
export function decisionNotice({ outcome, recorded }: Decided, isApproved: boolean): Notice {
  const ignored = ignoredReason(outcome);
  if (ignored !== null) return { text: ignored, tone: "bad" };
  if (outcome.outcome !== "repeated") return { text: nameOf(isApproved), tone: "good" };
  if (recorded === null) return { text: t("inbox.recordedUnknown"), tone: "bad" };
  return { text: t("inbox.recorded", { decision: nameOf(recorded) }), tone: recorded === isApproved ? "good" : "bad" };
}

const nameOf = (isApproved: boolean) => (isApproved ? t("inbox.approved") : t("inbox.rejected"));
