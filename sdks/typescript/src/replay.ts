// One run of a workflow's function against its journal. Pure: it talks to nobody and keeps no clock but its host's.
//
// How does a function get its results?
//
// 1. A step is known by its name. What the journal knows is not done again.
// 2. Results reach the function in the order of their seq, live as in a replay, one at a time: the next one waits
//    until the function has nothing left to do (a drain). So `Promise.race` has the same winner every time.
// 3. If a result's step is not asked for yet, later results wait for it, for at most a second: code outside steps
//    may be slow.
// 4. A step that the journal does not know begins once every step of the journal was asked for.
//    If the function does nothing for so long that its host loses patience, function and journal disagree.

import { setMaxListeners } from "node:events";
import { Ctx, StepCtx } from "./context.js";
import { NonDeterministicError, NonRetriableError, StepError } from "./errors.js";
import { Journal, type Result } from "./journal.js";
import { describe, type Level, Lines } from "./log.js";
import { fault, jsonOf, messageOf } from "./policy.js";
import { raise, stepOf } from "./rejections.js";
import { SPENT, type Step } from "./step.js";
import type { Context, StepContext } from "./types.js";
import type { Known, Report, Turn } from "./wire.js";

/** Whoever runs functions: a worker, or a test. */
export interface Host {
  /** Takes news for the journal. */
  report(replay: Replay, report: Report): void;
  /** Whether a step may begin now. If not, the host calls `pump` when it may. */
  mayStart(replay: Replay): boolean;
  /** The function waits for code outside steps while results are there: call `patience` in a second. */
  stuck(replay: Replay): void;
  /** How many such seconds a function may be busy outside steps, while a step of the journal is not asked for yet. */
  readonly rounds: number;
  /** There is nothing to be given to the function now. */
  quiet(replay: Replay): void;
  /** A step's function has come to its end, though nobody waits for it any more. */
  idle(replay: Replay): void;
  /** A line of a log, for people. */
  line(level: Level, message: string, fields: object | undefined, replay: Replay, step: string | undefined): void;
  /** Milliseconds, for how long a step took. */
  clock(): number;
  /** What a step performs in place of its own function. */
  mock?(step: string): ((step: StepContext) => unknown) | undefined;
}

export type Body = (ctx: Context, input: never) => unknown;

export class Replay {
  readonly id: string;
  readonly turn: number;
  /** The highest seq that was taken in. */
  seq: number;
  /** Steps whose functions run now. */
  running = 0;
  /** Steps that were asked for and have no result yet. */
  waiting = 0;
  /** The function has ended, or may not go on. */
  isOver = false;
  /** The run is paused or somewhere else now; results of running steps are still of use. */
  isRevoked = false;
  /** Counts what the function asks for, is given and begins. */
  moves = 0;
  // For the host: results that are not answered yet, those that are just being sent, and what was said of being blocked.
  unanswered = 0;
  inBatch = 0;
  isCandidate = false;
  saidBlocked = -1;
  private readonly journal: Journal;
  private readonly steps = new Map<string, Step>();
  /** Steps that may not begin yet. */
  private held: Step[] = [];
  /** The step that began last. */
  private last: Step | undefined;
  /** The step whose function is being called. */
  private inside: Step | undefined;
  private isDraining = false;
  private isStuck = false;
  private movesWhenStuck = 0;
  /** How often there was patience since the last move. */
  private rounds = 0;
  private controller: AbortController | undefined;
  /** Why the signal is aborted. */
  private reason: string | undefined;

  constructor(
    readonly host: Host,
    readonly source: Turn,
  ) {
    this.id = source.run;
    this.turn = source.turn;
    this.seq = source.seq;
    this.journal = new Journal(source.steps ?? []);
    // What the function has been given is not kept.
    source.steps = [];
  }

  /** Calls the function. */
  begin(body: Body): void {
    let promise: unknown;
    try {
      promise = body(new Ctx(this), (this.source.input ?? null) as never);
    } catch (error) {
      return this.threw(error);
    }
    Promise.resolve(promise).then(this.returned, this.threw);
  }

  /** Whether the function waits for the journal alone, if all but `sent` results are answered. */
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

  /** Whether the function waits for steps that may not begin here, and for nothing that runs. */
  get isHeldBack(): boolean {
    return !this.isOver && this.running === 0 && this.held.length > 0;
  }

  /** The signal that steps and function share. Made when it is first asked for. */
  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      // However many steps listen at once, nothing leaks.
      setMaxListeners(0, this.controller.signal);
      if (this.reason !== undefined) this.abort(this.reason);
    }
    return this.controller.signal;
  }

  /** Ends everything: the run has ended, or is another worker's. */
  abort(reason: string): void {
    this.isOver = true;
    this.isRevoked = false;
    this.reason ??= reason;
    this.controller?.abort(raise(new DOMException(this.reason, "AbortError"), this));
  }

  /** The end of the function is in the journal: nobody wants what still runs. */
  end(): void {
    if (this.running > 0) this.abort("the run has ended");
  }

  /** Starts nothing more. What runs now may still report. */
  revoke(): void {
    this.isOver = true;
    this.isRevoked = true;
  }

  // What the function asks for.

  ask(step: Step): Promise<unknown> {
    if (this.isOver) return new Promise(() => {});
    if (this.inside !== undefined) {
      // A replay that knows the outer step would not ask for the inner one.
      const message = `step "${step.name}" is asked for inside step "${this.inside.name}": steps do not nest; ask for it in the function, before or after`;
      throw new NonRetriableError(message, { code: "NESTED_STEP" });
    }
    if (this.steps.has(step.name)) {
      this.diverge(`step "${step.name}" is used twice; every step of a run has a name of its own`);
      return new Promise(() => {});
    }
    const promise = new Promise<unknown>((resolve, reject) => {
      step.resolve = resolve;
      step.reject = reject;
    });
    step.promise = promise;
    this.steps.set(step.name, step);
    this.waiting += 1;
    this.moves += 1;
    const known = this.journal.ask(step.name);
    if (known === undefined) {
      this.hold(step);
    } else if (known.kind !== step.kind) {
      this.diverge(`step "${step.name}" is of kind "${step.kind}" now, and of kind "${known.kind}" in the journal (seq ${known.seq})`);
    } else if (known.status === "retry") {
      step.attempt = known.attempt ?? 1;
      this.hold(step);
    } else {
      step.state = known.status === "open" ? "open" : "settled";
      this.drain();
    }
    return promise;
  }

  // What the server tells.

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
    this.deliver({ seq: seq === 0 ? this.seq : seq, step: name, known: undefined });
  }

  /** The journal knows more of a step. */
  wake(known: Known): void {
    if (known.seq > this.seq) this.seq = known.seq;
    if (this.isOver) return;
    const step = this.steps.get(known.step);
    if (step === undefined) return void this.journal.learn(known);
    if (step.state === "settled") return;
    if (known.status === "open") {
      if (step.state === "reported") step.state = "open";
    } else if (known.status === "retry") {
      const attempt = known.attempt ?? step.attempt + 1;
      // A report that failed may be unanswered still, while the journal is past it.
      if (step.state !== "open" && !(step.state === "reported" && attempt > step.attempt)) return;
      step.attempt = attempt;
      this.hold(step);
    } else if (step.state !== "running" && step.state !== "held") {
      step.state = "settled";
      this.deliver({ seq: known.seq, step: known.step, known });
    }
  }

  /** The same turn, told again: only what is new counts. */
  merge(turn: Turn): void {
    for (const known of turn.steps ?? []) this.wake(known);
    if (turn.seq > this.seq) this.seq = turn.seq;
    this.pump();
  }

  /** Begins what was held back, if it may begin. */
  pump(): void {
    if (this.held.length === 0 || this.journal.unasked > 0 || this.isOver || !this.host.mayStart(this)) return;
    const held = this.held;
    this.held = [];
    for (const step of held) this.start(step);
  }

  /** A second has gone by since the host was told that the function is stuck. */
  patience(): void {
    this.isStuck = false;
    if (this.isOver) return;
    if (this.moves !== this.movesWhenStuck) return this.drain();
    const missing = this.missing();
    const asked = this.held[0];
    if (asked !== undefined && missing !== undefined) {
      this.rounds += 1;
      if (this.rounds < this.host.rounds) return this.stick();
      return this.diverge(`step "${asked.name}" (${asked.kind}) was asked for, where ${missing}`);
    }
    // Slow code outside steps: whatever was asked for goes on without it.
    const result = this.journal.firstOf(this.isAsked);
    if (result === undefined) return;
    this.journal.deliver(result);
    this.hand(result);
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
      value = step.scope.runInAsyncScope(fn, undefined, new StepCtx(this, step));
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
      json = jsonOf(value);
    } catch (error) {
      return this.failed(step, new NonRetriableError(`what step "${step.name}" returned cannot be written as JSON: ${messageOf(error)}`, { code: "NOT_JSON" }));
    }
    if (!this.stop(step)) return;
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
    if (!this.stop(step)) return;
    const retryable = !(error instanceof NonRetriableError);
    this.host.report(this, {
      kind: "failed",
      step: step.name,
      attempt: step.attempt,
      error: { ...fault(error), retryable },
      retry: step.retry,
      logs: step.lines?.kept,
      tookMs: this.took(step),
    });
  }

  /** A step's function has ended. Whether anybody wants to know. */
  private stop(step: Step): boolean {
    this.running -= 1;
    step.state = "reported";
    if (!this.isOver || this.isRevoked) return true;
    this.host.idle(this);
    return false;
  }

  private took(step: Step): number {
    return Math.max(0, Math.round((this.host.clock() - step.began) * 1000) / 1000);
  }

  private readonly returned = (value: unknown): void => {
    if (this.isOver) return;
    let json: string | undefined;
    try {
      json = jsonOf(value);
    } catch (error) {
      return this.threw(new NonRetriableError(`what the workflow returned cannot be written as JSON: ${messageOf(error)}`, { code: "NOT_JSON" }));
    }
    const missing = this.missing();
    if (missing !== undefined) {
      return this.diverge(`the function has returned, where ${missing}`);
    }
    this.isOver = true;
    this.host.report(this, { kind: "returned", json: json ?? "null" });
  };

  private readonly threw = (error: unknown): void => {
    if (this.isOver) return;
    const missing = this.missing();
    if (missing !== undefined) {
      return this.diverge(`the function has thrown "${messageOf(error)}", where ${missing}`);
    }
    this.isOver = true;
    const report: Report = { kind: "threw", error: fault(error) };
    const step = stepOf(error, this);
    if (step !== undefined) report.step = step;
    this.host.report(this, report);
  };

  private diverge(message: string): void {
    if (this.isOver) return;
    this.revoke();
    this.host.report(this, { kind: "diverged", error: fault(new NonDeterministicError(message)) });
  }

  /** What the journal has that the function has not asked for. */
  private missing(): string | undefined {
    const missing = this.journal.missing(this.isAsked);
    return missing && `the journal has step "${missing.step}" (${missing.kind}, seq ${missing.seq})`;
  }

  private readonly isAsked = (step: string): boolean => this.steps.has(step);

  // Results, one after the other.

  private deliver(result: Result): void {
    if (this.waiting === 1 && this.journal.isDelivered && !this.isDraining) {
      this.journal.forget(result);
      return this.hand(result);
    }
    this.journal.add(result);
    this.drain();
  }

  private drain(): void {
    if (this.isDraining) return;
    this.isDraining = true;
    // From a microtask, the next tick comes after all microtasks.
    queueMicrotask(this.arm);
  }

  private readonly arm = (): void => process.nextTick(this.drained);

  /** The function has done all that it can. */
  private readonly drained = (): void => {
    this.isDraining = false;
    if (this.isOver) return;
    this.pump();
    const result = this.journal.peek();
    if (result === undefined) {
      if (this.held.length > 0 && this.journal.unasked > 0) this.stick();
      else this.host.quiet(this);
    } else if (this.steps.has(result.step)) {
      this.journal.deliver(result);
      this.hand(result);
      this.drain();
    } else {
      this.stick();
    }
  };

  private stick(): void {
    if (this.isStuck) return;
    this.isStuck = true;
    if (this.moves !== this.movesWhenStuck) this.rounds = 0;
    this.movesWhenStuck = this.moves;
    this.host.stuck(this);
  }

  /** Gives the function one result. */
  private hand(result: Result): void {
    const step = this.steps.get(result.step) as Step;
    this.steps.set(result.step, SPENT);
    this.waiting -= 1;
    this.moves += 1;
    const known = result.known;
    if (known === undefined) return step.resolve(JSON.parse(step.json));
    switch (known.status) {
      case "completed":
        return step.resolve(known.output ?? null);
      case "slept":
        return step.resolve(undefined);
      case "resolved":
        return step.resolve(known.payload ?? {});
      case "timedOut":
        return step.resolve(null);
      case "failed": {
        const { code, message, attempts } = known.error ?? { code: "STEP_FAILED", message: "the step failed" };
        // A function that never looks at the step must not end the process.
        step.promise.catch(() => {});
        return step.reject(raise(new StepError(step.name, code, message, attempts ?? step.attempt), this, step.name));
      }
      case "retry":
      case "open":
        throw new Error("only results are handed over");
    }
  }

  // Logs.

  /** A line that a step wrote, or the function: that one is of the step that runs, if exactly one does. */
  log(step: Step | undefined, level: Level, message: string, fields: object | undefined): void {
    if (step === undefined) {
      if (this.isOver && !this.isRevoked) return;
      if (this.running === 1) step = this.last?.state === "running" ? this.last : [...this.steps.values()].find((one) => one.state === "running");
      if (step === undefined && this.journal.isReplaying) return;
    }
    if (step !== undefined) {
      step.lines ??= new Lines();
      step.lines.add(describe(level, message, fields));
    }
    this.host.line(level, message, fields, this, step?.name);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  const mayBe = (typeof value === "object" && value !== null) || typeof value === "function";
  return mayBe && typeof (value as { then?: unknown }).then === "function";
}
