// Log lines of a worker about its runs: failed attempts, failed runs and paused runs.

import type { LogLevel } from "./log.js";
import type { Replay } from "./replay.js";
import type { LostTurn, Report, ReportedError, StepRecord } from "./wire.js";

export interface LogRecord {
  level: LogLevel;
  message: string;
  fields: Record<string, unknown>;
}

/** An attempt of a step has failed. */
export function attemptFailed(replay: Replay, report: Report & { kind: "failed" }): LogRecord {
  const { step, attempt, error, retry } = report;
  const isLast = error.retryable === false || attempt >= retry.attempts;
  const message = `step "${step}" failed in attempt ${attempt} of ${retry.attempts}${isLast ? " and is not retried" : ""}: ${error.message}`;
  return { level: "warn", message, fields: { ...sourceOf(replay), step, attempt, ...detailsOf(error) } };
}

/** The server has settled a step as failed: a called workflow has failed, or the journal could not keep an output. */
export function stepFailed(replay: Replay, record: StepRecord): LogRecord {
  const { code, message = "the step failed" } = record.error ?? {};
  return { level: "warn", message: `step "${record.step}" failed: ${message}`, fields: { ...sourceOf(replay), step: record.step, code } };
}

/** A function has thrown, and its run has failed. */
export function runFailed(run: string, replay: Replay | undefined, report: Report & { kind: "threw" }): LogRecord {
  const { step, error } = report;
  const message = `run failed${step === undefined ? "" : ` at step "${step}"`}: ${error.message}`;
  return { level: "error", message, fields: { ...sourceOf(replay, run), ...(step === undefined ? {} : { step }), ...detailsOf(error) } };
}

/** Function and journal disagree, and the run is paused. */
export function runPaused(run: string, replay: Replay | undefined, report: Report & { kind: "diverged" }): LogRecord {
  const remedy = `make the function request the steps that the journal has, or move the change to a new version; then run: everstep resume ${run}`;
  const { code, message } = report.error;
  return { level: "error", message: `run paused: ${message}; ${remedy}`, fields: { ...sourceOf(replay, run), code } };
}

/** The server has ended the run of a function that still runs. */
export function runEnded(replay: Replay, lost: LostTurn): LogRecord {
  const messages: Record<string, string> = { cancelled: "run was cancelled", failed: "run has failed at the server", ended: "run has ended at the server" };
  return lostTurn(replay, messages[lost.reason ?? ""] ?? "run was cancelled, or has failed at the server", lost);
}

/** The server has revoked a turn. Undefined for a run that only waits: such runs are parked all the time. */
export function turnRevoked(replay: Replay, lost: LostTurn): LogRecord | undefined {
  if (lost.reason === "paused") {
    const paused = lostTurn(replay, "run was paused", lost);
    return { ...paused, message: `${paused.message}; to continue it, run: everstep resume ${replay.id}` };
  }
  return lost.reason === "moved" ? lostTurn(replay, "run continues in another turn, here or at another worker", lost) : undefined;
}

function lostTurn(replay: Replay, message: string, { detail }: LostTurn): LogRecord {
  return { level: "info", message: detail === undefined ? message : `${message}: ${detail}`, fields: sourceOf(replay) };
}

/** A function has ended without awaiting some of its steps. */
export function unawaited(replay: Replay, report: Report & { unawaited?: string[] }): LogRecord {
  const names = report.unawaited ?? [];
  return { level: "warn", message: unawaitedMessage(report.kind, names), fields: { ...sourceOf(replay), unawaited: names } };
}

/** The sentence about steps that a function did not await. */
export function unawaitedMessage(kind: Report["kind"], names: readonly string[]): string {
  const end = kind === "threw" ? "threw" : "returned";
  const steps = `${names.length === 1 ? "step" : "steps"} ${names.map((name) => `"${name}"`).join(", ")}`;
  return `the function ${end} without awaiting ${steps}: missing await? Results of steps that still run are lost`;
}

/** The workflow and the id of a run, as every line about a run has them. */
export function sourceOf(replay: Replay | undefined, run?: string): Record<string, unknown> {
  return replay === undefined ? { run } : { workflow: replay.source.workflow, run: replay.id };
}

/** Code and stack of an error. A stack of one line repeats the message. */
function detailsOf({ code, stack }: ReportedError): Record<string, unknown> {
  return { ...(code === undefined ? {} : { code }), ...(stack?.includes("\n") === true ? { stack } : {}) };
}
