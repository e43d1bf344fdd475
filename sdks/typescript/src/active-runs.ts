// The runs that a worker executes: starts and ends their functions according to the server's messages, and sends reports.

import { WorkflowVersionMismatch } from "./errors.js";
import type { LogLevel } from "./log.js";
import { opensStep, type Outbox, withoutUnawaited } from "./outbox.js";
import { type Body, type Host, Replay } from "./replay.js";
import { messageOf, reportedError } from "./reported-error.js";
import { attemptFailed, type LogRecord, runEnded, runFailed, runPaused, sourceOf, stepFailed, turnRevoked, unawaited } from "./run-log.js";
import type { LostTurn, NumberedMessage, Report, Turn, TurnRef, Wake } from "./wire.js";
import type { ServedWorkflow } from "./worker.js";

/** The worker, as its runs see it. */
export interface RunsOwner {
  readonly workflows: ReadonlyMap<string, ReadonlyMap<number, ServedWorkflow>>;
  readonly isStopping: boolean;
  readonly leaseMs: number;
  /** Whether this worker's lease is still valid, by this worker's clock. */
  hasLease(): boolean;
  checkDrained(): void;
  /** Writes a log line. */
  writeLog(level: LogLevel, message: string, fields?: object): void;
}

/** Milliseconds between two ticks. */
export const TICK_MS = 200;
/**
 * The number of ticks that a function may be busy outside steps before later results are delivered without waiting for
 * it. Ticks are counted, not milliseconds: a suspended process has no ticks, and its functions do not run either.
 */
const STUCK_CHECK_TICKS = 6;

/** The abort reason for the signal of a run that is parked, paused or at another worker. */
const RUN_LEFT = "the run is no longer at this worker";

export class ActiveRuns implements Host {
  private readonly runs = new Map<string, Replay>();
  /** Runs that have left this worker while some of their steps still run. */
  private readonly leftovers = new Set<Replay>();
  /** Runs from an earlier session that the server has not confirmed in this one. */
  private readonly unconfirmed = new Set<Replay>();
  private confirmBy = 0;
  /** A step was held back because the lease, or the confirmation of its run, was missing. */
  private hasHeldSteps = false;
  private ticks = 0;
  private readonly stuckRuns: { replay: Replay; due: number }[] = [];

  constructor(
    private readonly owner: RunsOwner,
    private readonly outbox: Outbox,
  ) {}

  get count(): number {
    return this.runs.size;
  }

  /** Whether a step runs. */
  get isBusy(): boolean {
    return this.leftovers.size > 0 || [...this.runs.values()].some((replay) => replay.running > 0);
  }

  /** The turns that a new session continues, at most `max`. */
  holds(max: number): TurnRef[] {
    let replays = [...this.runs.values()];
    // Blocked runs do not count against the server's capacity, and lose the least if they start again.
    if (replays.length > max) replays = replays.sort((a, b) => b.running - a.running).slice(0, max);
    return replays.map((replay) => ({ run: replay.id, turn: replay.turn }));
  }

  /** A new session is open: the server confirms each run that it continues, within a lease. */
  expectConfirmation(confirmBy: number): void {
    this.confirmBy = confirmBy;
    for (const replay of this.runs.values()) this.unconfirmed.add(replay);
  }

  /** The lease was renewed: steps that were held back may start. */
  leaseRenewed(): void {
    if (!this.hasHeldSteps) return;
    this.hasHeldSteps = false;
    for (const replay of this.runs.values()) replay.startHeldSteps();
  }

  /** Aborts every function and step. */
  abort(): void {
    for (const replay of [...this.runs.values(), ...this.leftovers]) replay.abort("the worker has stopped");
  }

  clear(): void {
    this.runs.clear();
  }

  /** Returns runs to the server whose next step would start here while the worker stops. */
  declineHeldBack(): void {
    for (const replay of this.runs.values()) if (replay.isHeldBack && replay.unanswered === 0) this.decline(replay.id, replay.turn);
  }

  /** One tick has passed: checks the functions that were stuck. */
  checkStuckRuns(): void {
    this.ticks += 1;
    for (let next = this.stuckRuns[0]; next !== undefined && next.due <= this.ticks; next = this.stuckRuns[0]) {
      this.stuckRuns.shift();
      next.replay.checkStuck();
    }
  }

  /** Removes the runs that the server has not confirmed in time. */
  forgetUnconfirmed(now: number): void {
    if (this.unconfirmed.size === 0 || now <= this.confirmBy) return;
    for (const replay of this.unconfirmed) {
      // The server may still give this worker the same turn again. If the function were removed before its last report
      // is answered, it would start again in that turn and repeat the step of that report.
      if (replay.running > 0 || replay.unanswered > 0) continue;
      this.forget(replay.id, replay.turn, "another worker has the run");
    }
  }

  // Messages of the server.

  process(message: NumberedMessage): void {
    this.each(message.turns, (turn) => this.turn(turn));
    // Before the acks: an output that the journal could not store is acknowledged, and a wake reports that its step has
    // failed.
    this.each(message.wakes, (wake) => this.wake(wake));
    this.each(message.acks, ([n, seq]) => this.acknowledge(n, seq));
    this.each(message.refused, ({ n, code, detail }) => this.refused(n, code, detail));
    this.each(message.later, (n) => this.outbox.postpone(n));
    this.each(message.cancels, (ref) => this.cancel(ref));
    this.each(message.revoked, (ref) => this.revoke(ref));
  }

  /** Processes each element of a list. An error fails the run of its element and does not affect the others. */
  private each<T>(elements: readonly T[] = [], process: (element: T) => void): void {
    for (const element of elements) {
      try {
        process(element);
      } catch (error) {
        const { run, turn } = (element ?? {}) as Partial<TurnRef>;
        this.owner.writeLog("error", `a message of the server cannot be processed: ${messageOf(error)}`, { run });
        if (run === undefined || turn === undefined) continue;
        this.forget(run, turn, "the run has failed");
        this.outbox.post(undefined, run, turn, { kind: "threw", error: reportedError(error) });
      }
    }
  }

  private acknowledge(n: number, seq: number): void {
    const pending = this.outbox.answer(n);
    if (pending === undefined) return;
    const { replay, report } = pending;
    if (report.kind === "threw") this.log(runFailed(pending.run, replay, report));
    if (report.kind === "diverged") this.log(runPaused(pending.run, replay, report));
    if (replay === undefined) return;
    switch (report.kind) {
      case "completed":
        // In a new session, results before this one may be missing: the turn that confirms the run has all of them in order.
        if (this.unconfirmed.has(replay)) return;
        return replay.acknowledge(report, seq);
      case "failed":
        this.log(attemptFailed(replay, report));
        replay.acknowledge(report, seq);
        return this.outbox.considerBlocked(replay);
      case "sleep":
      case "wait":
      case "call":
      case "publish":
        replay.acknowledge(report, seq);
        return this.outbox.considerBlocked(replay);
      case "returned":
      case "threw":
        if (report.unawaited !== undefined) this.log(unawaited(replay, report));
        replay.end();
        return this.drop(replay);
      case "diverged":
        return this.release(replay);
      case "declined":
      case "blocked":
        return;
    }
  }

  private refused(n: number, code: string, detail: string): void {
    const pending = this.outbox.answer(n);
    if (pending === undefined || pending.report.kind === "blocked") return;
    const { replay, report, run, turn } = pending;
    // The session has moved to a node of an earlier version.
    if ("unawaited" in report && code === "VALIDATION_ERROR") return this.outbox.post(replay, run, turn, withoutUnawaited(report));
    const isLost = code === "FENCED" || code === "RUN_ENDED";
    const thrown = report.kind === "threw" ? ` (the function has thrown: ${report.error.message})` : "";
    if (!isLost) this.owner.writeLog("error", `the server refuses the report "${report.kind}": ${detail}${thrown}`, { ...sourceOf(replay, run), code });
    // The run has left this worker, and its function does not wait for the report.
    if (!isLost && replay?.isRevoked && report.kind !== "diverged") return;
    if (isLost || replay === undefined || (replay.isOver && report.kind !== "returned")) {
      this.forget(run, turn, detail);
      if (isLost || replay === undefined || report.kind !== "threw") return;
      // The run would never end: the end is reported once more, with the text of the server alone.
      return this.outbox.post(undefined, run, turn, { kind: "threw", error: { code, message: detail } });
    }
    // The server will never accept the report, and the function waits for it: the run cannot continue.
    if (code === "NONDETERMINISTIC") {
      replay.revoke();
      return this.outbox.post(replay, run, turn, { kind: "diverged", error: { code, message: detail } });
    }
    replay.isOver = true;
    const threw: Report = { kind: "threw", error: { code, message: detail } };
    if ("step" in report && report.step !== undefined) threw.step = report.step;
    this.outbox.post(replay, run, turn, threw);
  }

  private turn(turn: Turn): void {
    const before = this.runs.get(turn.run);
    if (before !== undefined && before.turn > turn.turn) return;
    if (before?.turn === turn.turn) {
      this.unconfirmed.delete(before);
      before.merge(turn);
      before.saidBlocked = -1;
      return this.outbox.considerBlocked(before);
    }
    this.forget(turn.run, turn.turn - 1, "the run has a new turn");
    if (this.owner.isStopping) return this.decline(turn.run, turn.turn);
    const versions = this.owner.workflows.get(turn.workflow);
    const workflow = versions?.get(turn.version);
    if (workflow === undefined) {
      const newest = versions === undefined ? 0 : Math.max(...versions.keys());
      const { message } = new WorkflowVersionMismatch(turn.workflow, newest, turn.version);
      const remedy = `another worker gets the run; serve version ${turn.version} until its runs have ended`;
      this.owner.writeLog("warn", `${message}: ${remedy}`, { workflow: turn.workflow, run: turn.run });
      return this.outbox.post(undefined, turn.run, turn.turn, { kind: "declined", error: { code: "WORKFLOW_VERSION_MISMATCH", message } });
    }
    const replay = new Replay(this, turn);
    this.runs.set(turn.run, replay);
    replay.begin(workflow.run as Body);
  }

  /** The worker stops: another one continues the run at once, without waiting for other runs of this worker. */
  private decline(run: string, turn: number): void {
    this.forget(run, turn, RUN_LEFT);
    this.outbox.post(undefined, run, turn, { kind: "declined", error: { code: "WORKER_STOPPING", message: "the worker is being stopped" } });
  }

  private wake(wake: Wake): void {
    const replay = this.find(wake);
    if (replay === undefined) return;
    // The failure of an attempt was logged when its report was answered.
    if (wake.status === "failed" && (wake.kind === "call" || wake.kind === "publish" || this.outbox.hasCompleted(replay, wake.step))) this.log(stepFailed(replay, wake));
    replay.wake(wake);
  }

  private cancel(lost: LostTurn): void {
    const replay = this.find(lost);
    if (replay !== undefined) this.log(runEnded(replay, lost));
    this.forget(lost.run, lost.turn, "the run has ended");
  }

  private revoke(lost: LostTurn): void {
    const replay = this.find(lost);
    if (replay === undefined) return;
    // A function that disagrees with its journal has paused its run itself, and that is logged.
    const record = replay.isRevoked ? undefined : turnRevoked(replay, lost);
    if (record !== undefined) this.log(record);
    this.release(replay);
  }

  /** The run continues without this function. Reports of its running steps are still sent. */
  private release(replay: Replay): void {
    replay.revoke();
    if (replay.running === 0) replay.abort(RUN_LEFT);
    this.drop(replay);
  }

  /** Aborts and removes a run, unless it has a later turn. */
  private forget(run: string, turn: number, reason: string): void {
    const replay = this.runs.get(run);
    if (replay !== undefined && replay.turn <= turn) {
      replay.abort(reason);
      this.drop(replay);
    }
    for (const left of this.leftovers) if (left.id === run && left.turn <= turn) left.abort(reason);
  }

  private drop(replay: Replay): void {
    if (this.runs.get(replay.id) === replay) this.runs.delete(replay.id);
    this.unconfirmed.delete(replay);
    if (replay.running > 0) this.leftovers.add(replay);
  }

  private find({ run, turn }: TurnRef): Replay | undefined {
    const replay = this.runs.get(run);
    return replay?.turn === turn ? replay : undefined;
  }

  // Calls of the functions.

  report(replay: Replay, report: Report): void {
    this.outbox.post(replay, replay.id, replay.turn, report);
    if (opensStep(report)) this.outbox.considerBlocked(replay);
    else if (replay.isRevoked) this.stepDiscarded(replay);
  }

  mayStart(replay: Replay): boolean {
    if (this.owner.hasLease() && !this.owner.isStopping && (this.unconfirmed.size === 0 || !this.unconfirmed.has(replay))) return true;
    this.hasHeldSteps = true;
    return false;
  }

  stuck(replay: Replay): void {
    this.stuckRuns.push({ replay, due: this.ticks + STUCK_CHECK_TICKS });
  }

  /** A function may make no progress for one lease, the time for which a worker may be silent. */
  get stuckChecksMax(): number {
    return Math.ceil(this.owner.leaseMs / (TICK_MS * STUCK_CHECK_TICKS));
  }

  drained(replay: Replay): void {
    this.outbox.considerBlocked(replay);
  }

  stepDiscarded(replay: Replay): void {
    if (replay.running === 0 && this.leftovers.delete(replay)) replay.abort(RUN_LEFT);
    if (this.owner.isStopping) this.owner.checkDrained();
  }

  writeLog(level: LogLevel, message: string, fields: object | undefined, replay: Replay, step: string | undefined): void {
    this.owner.writeLog(level, message, { ...sourceOf(replay), ...(step === undefined ? {} : { step }), ...fields });
  }

  private log({ level, message, fields }: LogRecord): void {
    this.owner.writeLog(level, message, fields);
  }

  clock(): number {
    return performance.now();
  }
}
