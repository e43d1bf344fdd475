// One execution of a workflow's function against its journal. Pure: no I/O, and no clock but that of its host.
//
// How the function receives results:
//
// 1. A step is identified by its name. A step that the journal has is not executed again.
// 2. Results are delivered in the order of their seq, live as in a replay, and one at a time: the next one is delivered
//    when the function has run as far as it can (a drain). So `Promise.race` has the same winner every time.
// 3. If the function has not asked for the step of a result yet, later results wait, for about a second: code outside
//    steps may be slow.
// 4. A step that the journal does not have starts when the function has asked for every step of the journal.
//    Until then it is held, because a slow branch may still ask for the missing step. If the function makes no progress
//    for as long as its host allows, function and journal disagree, and the run is paused.
// 5. If the function has asked for no step of the journal at all, its first step differs, and the host's time is reduced
//    to about five seconds. These are for a function with two branches: the faster one asks for a step that has no
//    result in the journal, such as a long step whose worker was lost; the slower one has not asked for a step yet.

import { setMaxListeners } from "node:events";
import { AttemptContext, FunctionContext } from "./context.js";
import { NonDeterministicError, NonRetriableError, StepError } from "./errors.js";
import { Journal, type StepResult } from "./journal.js";
import { encodeJson } from "./json.js";
import { formatLine, type LogLevel, LogLines } from "./log.js";
import { markError, stepOf } from "./rejections.js";
import { messageOf, reportedError } from "./reported-error.js";
import { SETTLED_STEP, type Step, StepPromise } from "./step.js";
import type { Context, StepContext } from "./types.js";
import type { Report, StepRecord, Turn } from "./wire.js";

/** The maximum number of checks, about 1.2 s apart, of a function that has asked for no step of the journal. */
const FIRST_STEP_CHECKS_MAX = 4;

/** The environment of a replay: a worker, or a test. */
export interface Host {
  /** Sends a report to the journal. */
  report(replay: Replay, report: Report): void;
  /** Whether a step may start now. If not, the host calls `startHeldSteps` when it may. */
  mayStart(replay: Replay): boolean;
  /** The function is busy outside steps while results wait: call `checkStuck` after about a second. */
  stuck(replay: Replay): void;
  /** How many such checks may pass without progress while the function has not asked for a step of the journal. */
  readonly stuckChecksMax: number;
  /** No result is left to deliver now. */
  drained(replay: Replay): void;
  /** The function of a step has ended, and its outcome is not needed. */
  stepDiscarded(replay: Replay): void;
  /** Writes a log line. */
  writeLog(level: LogLevel, message: string, fields: object | undefined, replay: Replay, step: string | undefined): void;
  /** Milliseconds, to measure how long a step takes. */
  clock(): number;
  /** A function that runs in place of that of the step. */
  mock?(step: string): ((step: StepContext) => unknown) | undefined;
}

/** Names of steps that a report of the function's end contains. */
const UNAWAITED_MAX = 20;

/** The function of a workflow. */
export type Body = (ctx: Context, input: never) => unknown;

export class Replay {
  readonly id: string;
  readonly turn: number;
  /** The highest seq that the server has sent for this run. */
  seq: number;
  /** How many functions of steps run now. */
  running = 0;
  /** How many steps were asked for and have no result yet. */
  waiting = 0;
  /** The function has ended, or must not continue. */
  isOver = false;
  /** The run is paused, parked or at another worker. Reports of running steps are still sent. */
  isRevoked = false;
  /** Counts the progress of the function: steps that it asks for, starts or receives. */
  moves = 0;
  /** Counts the results that the function has received. */
  private deliveries = 0;
  // Fields of the outbox: unanswered reports, reports in the batch that is being made, and the progress at the last `blocked` report.
  unanswered = 0;
  inBatch = 0;
  isCandidate = false;
  saidBlocked = -1;
  private readonly journal: Journal;
  private readonly steps = new Map<string, Step>();
  /** Steps that must not start yet. */
  private held: Step[] = [];
  /** The step that started last. */
  private last: Step | undefined;
  /** The step whose function is being called, up to its first `await`. */
  private inside: Step | undefined;
  private isDraining = false;
  private isStuck = false;
  private movesWhenStuck = 0;
  /** Checks since the last progress. */
  private stuckChecks = 0;
  /** Steps that have failed in this turn. */
  private readonly failures: Pick<Step, "name" | "promise">[] = [];
  /** Promises of the function that failed steps have rejected and that nothing awaits yet, with the names of the steps. */
  rejected: Map<object, string> | undefined;
  private controller: AbortController | undefined;
  /** The reason with which the signal is aborted. */
  private reason: string | undefined;

  constructor(
    readonly host: Host,
    readonly source: Turn,
  ) {
    this.id = source.run;
    this.turn = source.turn;
    this.seq = source.seq;
    this.journal = new Journal(source.steps ?? []);
    // The journal object has copied the records: the turn need not keep them.
    source.steps = [];
  }

  /** Calls the function. */
  begin(body: Body): void {
    let promise: unknown;
    try {
      promise = body(new FunctionContext(this), (this.source.input ?? null) as never);
    } catch (error) {
      return this.threw(error);
    }
    Promise.resolve(promise).then(this.returned, this.threw);
  }

  /** Whether the function waits for the server alone: no step runs, and all but `sent` reports are answered. */
  isBlocked(sent: number): boolean {
    return (
      !this.isOver &&
      this.running === 0 &&
      this.waiting > 0 &&
      this.unanswered === sent &&
      this.held.length === 0 &&
      this.journal.isDelivered &&
      !this.isDraining
    );
  }

  /** Whether the function waits for steps that must not start here, and no step runs. */
  get isHeldBack(): boolean {
    return !this.isOver && this.running === 0 && this.held.length > 0;
  }

  /** The signal that steps and function share. Created on first use. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      // Any number of steps may listen: this is not a leak.
      setMaxListeners(0, this.controller.signal);
      if (this.reason !== undefined) this.abort(this.reason);
    }
    return this.controller.signal;
  }

  /** Ends the function and its steps: the run has ended, or another worker has it. */
  abort(reason: string): void {
    this.isOver = true;
    this.isRevoked = false;
    this.reason ??= reason;
    this.controller?.abort(markError(new DOMException(this.reason, "AbortError"), this));
  }

  /** The end of the function is in the journal: steps that still run are aborted. */
  end(): void {
    if (this.running > 0) this.abort("the run has ended");
  }

  /** Starts no more steps. Steps that run may still report. */
  revoke(): void {
    this.isOver = true;
    this.isRevoked = true;
  }

  // Requests of the function.

  ask(step: Step): Promise<unknown> {
    if (this.isOver) return new Promise(() => {});
    if (this.inside !== undefined) {
      // A replay in which the outer step is completed would never ask for the inner one.
      const message = `step "${step.name}" is requested inside step "${this.inside.name}": steps do not nest; call it in the function of the workflow, before or after`;
      throw new NonRetriableError(message, { code: "NESTED_STEP" });
    }
    if (this.steps.has(step.name)) {
      this.diverge(`step "${step.name}" is used twice; the name of a step must be unique in a run`);
      return new Promise(() => {});
    }
    const promise = new StepPromise((resolve, reject) => {
      step.resolve = resolve;
      step.reject = reject;
    });
    step.promise = promise;
    step.deliveriesBefore = this.deliveries;
    this.steps.set(step.name, step);
    this.waiting += 1;
    this.moves += 1;
    const record = this.journal.ask(step.name);
    if (record === undefined) {
      this.hold(step);
    } else if (record.kind !== step.kind) {
      this.diverge(`step "${step.name}" is of kind "${step.kind}" now, and of kind "${record.kind}" in the journal (seq ${record.seq})`);
    } else if (record.status === "retry") {
      step.attempt = record.attempt ?? 1;
      this.hold(step);
    } else {
      step.state = record.status === "open" ? "open" : "settled";
      this.drain();
    }
    return promise;
  }

  // Messages of the server.

  /** A report is in the journal. */
  acknowledge(report: Report, seq: number): void {
    if (seq > this.seq) this.seq = seq;
    if (this.isOver || !("step" in report) || report.step === undefined) return;
    const name = report.step;
    const step = this.steps.get(name);
    if (step === undefined || step.state !== "reported") return;
    if ("attempt" in report && report.attempt !== step.attempt) return;
    if (report.kind !== "completed") {
      step.state = "open";
      return;
    }
    step.state = "settled";
    this.enqueue({ seq: seq === 0 ? this.seq : seq, step: name, record: undefined });
  }

  /** The journal has a newer record of a step. */
  wake(record: StepRecord): void {
    if (record.seq > this.seq) this.seq = record.seq;
    if (this.isOver) return;
    const step = this.steps.get(record.step);
    if (step === undefined) return void this.journal.learn(record);
    if (step.state === "settled") return;
    if (record.status === "open") {
      if (step.state === "reported") step.state = "open";
    } else if (record.status === "retry") {
      const attempt = record.attempt ?? step.attempt + 1;
      // A `failed` report may still be unanswered although the journal has the next attempt already.
      if (step.state !== "open" && !(step.state === "reported" && attempt > step.attempt)) return;
      step.attempt = attempt;
      this.hold(step);
    } else if (step.state !== "running" && step.state !== "held") {
      step.state = "settled";
      this.enqueue({ seq: record.seq, step: record.step, record });
    }
  }

  /** The same turn was sent again: applies what is new in it. */
  merge(turn: Turn): void {
    for (const record of turn.steps ?? []) this.wake(record);
    if (turn.seq > this.seq) this.seq = turn.seq;
    this.startHeldSteps();
  }

  /** Starts the steps that were held back, if they may start. */
  startHeldSteps(): void {
    if (this.held.length === 0 || this.journal.unasked > 0 || this.isOver || !this.host.mayStart(this)) return;
    const held = this.held;
    this.held = [];
    for (const step of held) this.start(step);
  }

  /** Called about a second after `Host.stuck`. */
  checkStuck(): void {
    this.isStuck = false;
    if (this.isOver) return;
    if (this.moves !== this.movesWhenStuck) return this.drain();
    const missing = this.missing();
    const asked = this.held[0];
    if (asked !== undefined && missing !== undefined) {
      this.stuckChecks += 1;
      const disagreement = `step "${asked.name}" (${asked.kind}) was requested, but ${missing}`;
      const checksMax = this.journal.isBegun ? this.host.stuckChecksMax : Math.min(FIRST_STEP_CHECKS_MAX, this.host.stuckChecksMax);
      if (this.stuckChecks >= checksMax) return this.diverge(disagreement);
      if (this.stuckChecks === 1) {
        const warning = `${disagreement}; the run is paused if code outside steps makes no progress`;
        this.host.writeLog("warn", warning, undefined, this, undefined);
      }
      return this.reportStuck();
    }
    // Code outside steps is slow: results of steps that were asked for are delivered without waiting for it.
    const result = this.journal.firstOf(this.isAsked);
    if (result === undefined) return;
    this.journal.deliver(result);
    this.settle(result);
    this.drain();
  }

  private hold(step: Step): void {
    step.state = "held";
    if (this.journal.unasked === 0 && this.held.length === 0 && this.host.mayStart(this)) return this.start(step);
    this.held.push(step);
    this.drain();
  }

  private start(step: Step): void {
    this.moves += 1;
    if (step.fn === undefined || step.scope === undefined) {
      step.state = "reported";
      return this.host.report(this, step.opening as Report);
    }
    step.state = "running";
    this.last = step;
    step.began = this.host.clock();
    step.lines = undefined;
    this.running += 1;
    let value: unknown;
    let promise: Promise<unknown> | undefined;
    try {
      const fn = this.host.mock?.(step.name) ?? step.fn;
      this.inside = step;
      value = step.scope.runInAsyncScope(fn, undefined, new AttemptContext(this, step));
      if (isThenable(value)) promise = Promise.resolve(value);
    } catch (error) {
      return this.failed(step, error);
    } finally {
      this.inside = undefined;
    }
    if (promise === undefined) return this.completed(step, value);
    promise.then(
      (value) => this.completed(step, value),
      (error) => this.failed(step, error),
    );
  }

  private completed(step: Step, value: unknown): void {
    let json: string | undefined;
    try {
      json = encodeJson(value);
    } catch (error) {
      return this.failed(step, new NonRetriableError(`the return value of step "${step.name}" cannot be written as JSON: ${messageOf(error)}`, { code: "NOT_JSON" }));
    }
    if (!this.stepEnded(step)) return;
    step.json = json ?? "null";
    this.host.report(this, {
      kind: "completed",
      step: step.name,
      attempt: step.attempt,
      json: step.json,
      logs: step.lines?.kept,
      tookMs: this.took(step),
    });
  }

  private failed(step: Step, error: unknown): void {
    if (!this.stepEnded(step)) return;
    const retryable = !(error instanceof NonRetriableError);
    this.host.report(this, {
      kind: "failed",
      step: step.name,
      attempt: step.attempt,
      error: { ...reportedError(error), retryable },
      retry: step.retry,
      logs: step.lines?.kept,
      tookMs: this.took(step),
    });
  }

  /** The function of a step has ended. Returns whether its outcome is reported. */
  private stepEnded(step: Step): boolean {
    this.running -= 1;
    step.state = "reported";
    if (!this.isOver || this.isRevoked) return true;
    this.host.stepDiscarded(this);
    return false;
  }

  private took(step: Step): number {
    return Math.max(0, Math.round((this.host.clock() - step.began) * 1000) / 1000);
  }

  private readonly returned = (value: unknown): void => {
    if (this.isOver) return;
    let json: string | undefined;
    try {
      json = encodeJson(value);
    } catch (error) {
      return this.threw(new NonRetriableError(`the return value of the workflow cannot be written as JSON: ${messageOf(error)}`, { code: "NOT_JSON" }));
    }
    const missing = this.missing();
    if (missing !== undefined) {
      return this.diverge(`the function has returned, but ${missing}`);
    }
    this.ended({ kind: "returned", json: json ?? "null" });
  };

  private readonly threw = (error: unknown): void => {
    if (this.isOver) return;
    const missing = this.missing();
    if (missing !== undefined) {
      return this.diverge(`the function has thrown "${messageOf(error)}", but ${missing}`);
    }
    const report: Report & { kind: "threw" } = { kind: "threw", error: reportedError(error) };
    const step = stepOf(error, this);
    if (step !== undefined) report.step = step;
    this.ended(report);
  };

  /** The function has ended: reports it, with the steps that it did not await. */
  private ended(report: Report & { kind: "returned" | "threw" }): void {
    this.isOver = true;
    // Node.js reports rejections, and that they were handled, after all microtasks.
    if (this.failures.length > 0) setImmediate(() => this.reportEnd(report));
    else this.reportEnd(report);
  }

  private reportEnd(report: Report & { kind: "returned" | "threw" }): void {
    if (this.reason !== undefined) return;
    if (this.waiting > 0 || this.failures.length > 0 || this.rejected !== undefined) {
      const unawaited = this.unawaited(report.kind);
      if (unawaited.length > 0) report.unawaited = unawaited;
    }
    this.host.report(this, report);
  }

  /**
   * The steps that the function has not awaited, though they still run or have failed:
   *
   * 1. A step that still runs, and whose promise nothing awaits or handles.
   * 2. A step that still runs and that only an async helper awaits or returns, if the function has returned and has
   *    received no result since it asked for the step: the function does not await the helper, as in
   *    `items.forEach(async (item) => { await ctx.step.run(…) })`. If the function has received a result, the helper may
   *    have lost a race to it, so its steps are not named; and an error may end the function before any result.
   * 3. A step that has failed, and whose promise or helper nothing awaits.
   *
   * The loser of a `Promise.race` is not among them: the race handles its promise.
   */
  private unawaited(end: "returned" | "threw"): string[] {
    const names = new Set<string>();
    for (const [name, step] of this.steps) {
      if (step.state === "settled") continue;
      const { isAwaited, isHandled } = step.promise;
      const isForgottenHelper = end === "returned" && !isHandled && step.deliveriesBefore === this.deliveries;
      if (!isAwaited || isForgottenHelper) names.add(name);
    }
    for (const step of this.failures) if (!step.promise.isAwaited) names.add(step.name);
    for (const name of this.rejected?.values() ?? []) names.add(name);
    return [...names].slice(0, UNAWAITED_MAX);
  }

  private diverge(message: string): void {
    if (this.isOver) return;
    this.revoke();
    this.host.report(this, { kind: "diverged", error: reportedError(new NonDeterministicError(message)) });
  }

  /** A step of the journal that the function has not asked for, in words. */
  private missing(): string | undefined {
    const missing = this.journal.missing(this.isAsked);
    return missing && `the journal has step "${missing.step}" (${missing.kind}, seq ${missing.seq})`;
  }

  private readonly isAsked = (step: string): boolean => this.steps.has(step);

  // Delivery of results, one after the other.

  private enqueue(result: StepResult): void {
    if (this.waiting === 1 && this.journal.isDelivered && !this.isDraining) {
      this.journal.forget(result);
      return this.settle(result);
    }
    this.journal.add(result);
    this.drain();
  }

  private drain(): void {
    if (this.isDraining) return;
    this.isDraining = true;
    // `nextTick` from a microtask runs after all microtasks.
    queueMicrotask(this.scheduleDrained);
  }

  private readonly scheduleDrained = (): void => process.nextTick(this.drained);

  /** The function has run as far as it can: delivers the next result. */
  private readonly drained = (): void => {
    this.isDraining = false;
    if (this.isOver) return;
    this.startHeldSteps();
    const result = this.journal.peek();
    if (result === undefined) {
      if (this.held.length > 0 && this.journal.unasked > 0) this.reportStuck();
      else this.host.drained(this);
    } else if (this.steps.has(result.step)) {
      this.journal.deliver(result);
      this.settle(result);
      this.drain();
    } else {
      this.reportStuck();
    }
  };

  private reportStuck(): void {
    if (this.isStuck) return;
    this.isStuck = true;
    if (this.moves !== this.movesWhenStuck) this.stuckChecks = 0;
    this.movesWhenStuck = this.moves;
    this.host.stuck(this);
  }

  /** Passes one result to the function. */
  private settle(result: StepResult): void {
    const step = this.steps.get(result.step) as Step;
    this.steps.set(result.step, SETTLED_STEP);
    this.waiting -= 1;
    this.moves += 1;
    this.deliveries += 1;
    const record = result.record;
    if (record === undefined) return step.resolve(JSON.parse(step.json));
    switch (record.status) {
      case "completed":
        return step.resolve(record.output ?? null);
      case "slept":
        return step.resolve(undefined);
      case "resolved":
        if (step.isEventWanted) return step.resolve({ data: record.payload ?? null, event: record.event ?? null });
        return step.resolve(record.payload ?? {});
      case "timedOut":
        return step.resolve(null);
      case "failed": {
        const { code, message, attempts } = record.error ?? { code: "STEP_FAILED", message: "the step failed" };
        // If the function never awaits the step, the rejection must not end the process.
        step.promise.ignoreRejection();
        this.failures.push({ name: step.name, promise: step.promise });
        const error = new StepError(step.name, code, message, attempts ?? step.attempt);
        // All frames of its stack belong to this file. The stack of the failed attempt is in the journal.
        error.stack = `${error.name}: ${message}`;
        return step.reject(markError(error, this, step.name));
      }
      case "retry":
      case "open":
        throw new Error("an open step is not a result");
    }
  }

  // Logs.

  /** A log line of a step or of the function. While exactly one step runs, lines of the function belong to that step. */
  log(step: Step | undefined, level: LogLevel, message: string, fields: object | undefined): void {
    if (step === undefined) {
      if (this.isOver && !this.isRevoked) return;
      if (this.running === 1) step = this.last?.state === "running" ? this.last : [...this.steps.values()].find((step) => step.state === "running");
      if (step === undefined && this.journal.isReplaying) return;
    }
    if (step !== undefined) {
      step.lines ??= new LogLines();
      step.lines.add(formatLine(level, message, fields));
    }
    this.host.writeLog(level, message, fields, this, step?.name);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  const mayBe = (typeof value === "object" && value !== null) || typeof value === "function";
  return mayBe && typeof (value as { then?: unknown }).then === "function";
}
