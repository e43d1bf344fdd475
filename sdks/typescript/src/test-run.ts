// A run in a unit test, with the parts of a server that it needs: journal, timers, signals and events, in simulated time.

import { contains } from "./contains.js";
import { milliseconds, moment } from "./duration.js";
import { formatLine, type LogLevel } from "./log.js";
import { type Body, type Host, Replay } from "./replay.js";
import { reportedError } from "./reported-error.js";
import { type KeptEvent, TestTopics } from "./test-topics.js";
import { type Mock, type TestEvent, type TestOptions, type TestResult, type TestSignal, type TestStep, type Testable, test } from "./testing.js";
import type { Json, RunTrigger } from "./types.js";
import type { Report, ReportedError, RetryPolicy, StepKind, StepRecord, Turn } from "./wire.js";

export { contains };

/** A step of the journal. */
interface JournalStep {
  record: StepRecord;
  /** The output or payload. Every turn parses it again, because the function may change the value. */
  json: string;
  step: TestStep;
}

interface Timer {
  at: number;
  fire: () => void;
}

interface Wait {
  step: string;
  event: string;
  /** Whether events resolve it: a wait without a name of its own is for signals. */
  isByTopic: boolean;
  match: unknown;
  isOpen: boolean;
}

let runs = 0;

export class TestRun implements Host {
  /** Fewer than a worker allows: test runners end a test after a few seconds. */
  readonly stuckChecksMax = 3;
  private readonly id: string;
  private readonly began: number;
  private now: number;
  private seq = 1;
  private turn = 0;
  private replay!: Replay;
  private readonly journal = new Map<string, JournalStep>();
  private timers: Timer[] = [];
  private readonly waits: Wait[] = [];
  private readonly onDemand: TestSignal[] = [];
  private readonly dropped: TestSignal[] = [];
  private readonly trigger: RunTrigger | undefined;
  private readonly topics: TestTopics;
  private readonly logs: string[] = [];
  private readonly unawaited: string[] = [];
  private readonly mocks: Map<string, Mock>;
  private readonly unused: Set<string>;
  private readonly crashAfter: Set<string>;
  private readonly crashDuring: Set<string>;
  private unprocessed: Report[] = [];
  private isScheduled = false;
  private pendingOutcomes = 0;
  private isDone = false;

  constructor(
    private readonly workflow: Testable<unknown, unknown>,
    private readonly options: TestOptions<unknown>,
    private readonly done: (result: TestResult<unknown>) => void,
  ) {
    this.id = `00000000-0000-7000-8000-${String(++runs).padStart(12, "0")}`;
    this.began = options.now === undefined ? Date.now() : moment(options.now, "now");
    this.now = this.began;
    this.mocks = new Map(Object.entries(options.steps ?? {}));
    this.unused = new Set(this.mocks.keys());
    this.crashAfter = new Set(namesOf(options.crashAfter));
    this.crashDuring = new Set(namesOf(options.crashDuring));
    const { trigger, events = [] } = options;
    if (trigger !== undefined) {
      const id = this.id.replace("-8000-", "-a000-");
      this.trigger = { type: "event", id, topic: null, subscription: null, source: null, depth: 0, scheduledFor: null, ...trigger };
    }
    this.topics = new TestTopics(this.id, this.trigger === undefined ? 0 : this.trigger.depth + 1, events);
    for (const event of events) if (event.at !== undefined) this.schedule(event, event.at);
    for (const signal of options.signals ?? []) {
      if (signal.at === undefined) this.onDemand.push(signal);
      else this.after(milliseconds(signal.at, `the time of signal "${signal.event}"`), () => this.signal(signal));
    }
    if (options.cancelAt !== undefined) this.after(milliseconds(options.cancelAt, "cancelAt"), () => this.cancel());
  }

  begin(): void {
    this.turn += 1;
    const steps = [...this.journal.values()].map((journaled) => recordOf(journaled)).sort((a, b) => a.seq - b.seq);
    const startedAt = new Date(this.began).toISOString();
    const { name, version } = this.workflow;
    const input = copy(this.options.input);
    const turn: Turn = { run: this.id, turn: this.turn, workflow: name, version, input, startedAt, seq: ++this.seq, steps };
    if (this.trigger !== undefined) turn.trigger = this.trigger;
    this.replay = new Replay(this, turn);
    this.replay.begin(this.workflow.run as Body);
    this.processSoon();
  }

  // Reports of the function. As in a server, they are processed when the function has run as far as it can.

  report(replay: Replay, report: Report): void {
    if (replay !== this.replay || this.isDone) return;
    replay.unanswered += 1;
    this.unprocessed.push(report);
    this.processSoon();
  }

  mayStart(): boolean {
    return true;
  }

  stuck(replay: Replay): void {
    setTimeout(() => replay.checkStuck(), 1_000);
  }

  drained(): void {
    this.processSoon();
  }

  stepDiscarded(): void {}

  writeLog(level: LogLevel, message: string, fields: object | undefined, _replay: Replay, step: string | undefined): void {
    if (step === undefined) this.logs.push(formatLine(level, message, fields));
  }

  clock(): number {
    return performance.now();
  }

  mock(step: string): Exclude<Mock, Json> | undefined {
    this.unused.delete(step);
    const mock = this.mocks.get(step);
    return mock === undefined || typeof mock === "function" ? mock : () => mock;
  }

  private processSoon(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => {
      this.isScheduled = false;
      this.process();
    });
  }

  private process(): void {
    const reports = this.unprocessed;
    this.unprocessed = [];
    for (const report of reports) {
      if (this.isDone) return;
      const replay = this.replay;
      if ("step" in report && report.step !== undefined && "attempt" in report && this.crashDuring.delete(report.step)) return this.crash();
      const journaled = this.write(report);
      if (this.isDone) return;
      replay.unanswered -= 1;
      if (report.kind === "completed" && this.crashAfter.delete(report.step)) return this.crash();
      replay.acknowledge(report, journaled?.record.seq ?? 0);
      if ((report.kind === "failed" && journaled?.record.status === "failed") || (report.kind === "publish" && journaled?.record.status !== "open")) {
        this.notify(journaled as JournalStep);
      }
      if (replay !== this.replay) return;
    }
    if (!this.isDone && this.pendingOutcomes === 0 && this.replay.isBlocked(0)) this.advance();
  }

  /** Advances the time to the next timer. */
  private advance(): void {
    const next = this.timers.reduce<Timer | undefined>((first, timer) => (first === undefined || timer.at < first.at ? timer : first), undefined);
    if (next === undefined) return this.finish("waiting", null, null);
    this.timers = this.timers.filter((timer) => timer !== next);
    this.now = Math.max(this.now, next.at);
    next.fire();
    this.processSoon();
  }

  private after(ms: number, fire: () => void): void {
    this.timers.push({ at: this.now + ms, fire });
  }

  /** The worker is lost: another one continues the run from the journal. */
  private crash(): void {
    this.unprocessed = [];
    this.replay.abort("the worker was lost");
    this.begin();
  }

  // The journal.

  private write(report: Report): JournalStep | undefined {
    if ("unawaited" in report) this.unawaited.push(...(report.unawaited ?? []));
    switch (report.kind) {
      case "completed": {
        const journaled = this.journalStep(report.step, "run", report.attempt);
        journaled.step.logs.push(...(report.logs ?? []));
        this.settle(journaled, { status: "completed" }, report.json);
        return journaled;
      }
      case "failed":
        return this.failed(report);
      case "sleep": {
        const journaled = this.journalStep(report.step, "sleep", 1);
        const ms = report.forMs ?? Math.max(0, (report.untilMs as number) - this.now);
        this.after(ms, () => this.wake(journaled, { status: "slept" }, "null"));
        return journaled;
      }
      case "wait":
        return this.wait(report);
      case "call":
        return this.call(report);
      case "publish":
        return this.publish(report);
      case "returned":
        this.finish("completed", JSON.parse(report.json), null);
        return undefined;
      case "threw":
        this.finish("failed", null, this.runError(report.error, report.step));
        return undefined;
      case "diverged":
        this.finish("diverged", null, this.runError(report.error, undefined));
        return undefined;
      case "blocked":
      case "declined":
        return undefined;
    }
  }

  private failed(report: Report & { kind: "failed" }): JournalStep {
    const { step, attempt, error, retry, logs } = report;
    const journaled = this.journalStep(step, "run", attempt);
    journaled.step.logs.push(...(logs ?? []));
    journaled.step.attempts = attempt;
    if (error.retryable === false || attempt >= retry.attempts) {
      this.settle(journaled, { status: "failed", error: { code: error.code ?? "ERROR", message: error.message, attempts: attempt } }, "null");
      return journaled;
    }
    journaled.record = { step, kind: "run", seq: ++this.seq, status: "open" };
    this.after(backoffMs(retry, attempt), () => {
      journaled.record = { step, kind: "run", seq: ++this.seq, status: "retry", attempt: attempt + 1 };
      this.replay.wake(journaled.record);
    });
    return journaled;
  }

  private wait(report: Report & { kind: "wait" }): JournalStep {
    const journaled = this.journalStep(report.step, "wait", 1);
    // A wait without a match accepts every signal.
    const match = report.match === undefined || report.match === "{}" ? undefined : JSON.parse(report.match);
    const wait: Wait = { step: report.step, event: report.event ?? report.step, isByTopic: report.event !== undefined, match, isOpen: true };
    this.waits.push(wait);
    if (report.timeoutMs !== undefined) {
      this.after(report.timeoutMs, () => {
        if (!wait.isOpen) return;
        wait.isOpen = false;
        this.wake(journaled, { status: "timedOut" }, "null");
      });
    }
    const at = this.onDemand.findIndex((signal) => accepts(wait, signal));
    if (at >= 0) {
      const [signal] = this.onDemand.splice(at, 1);
      this.soon(() => this.resolve(wait, signal as TestSignal));
    } else if (wait.isByTopic) {
      this.lookBack(wait, report);
    }
    return journaled;
  }

  /** Delivers an event that the wait finds when it is opened: one of the past, or one that the test publishes then. */
  private lookBack(wait: Wait, { since }: Report & { kind: "wait" }): void {
    const past = since === undefined ? undefined : this.topics.oldest(wait, since, this.began, this.now);
    if (past !== undefined) return this.soon(() => this.receive(wait, past));
    const next = this.topics.takeOnDemand(wait);
    if (next !== undefined) this.soon(() => this.deliver(this.topics.publish(next, this.now)));
  }

  /** Performs an action after the commit of the report that caused it. */
  private soon(act: () => void): void {
    this.pendingOutcomes += 1;
    setImmediate(() => {
      this.pendingOutcomes -= 1;
      if (this.isDone) return;
      act();
      this.processSoon();
    });
  }

  private publish(report: Report & { kind: "publish" }): JournalStep {
    const { step, topic } = report;
    const journaled = this.journalStep(step, "publish", 1);
    const mock = this.mock(step);
    if (mock !== undefined) {
      this.pendingOutcomes += 1;
      void runMock(mock, { attempt: 1, input: JSON.parse(report.data) }).then(({ json, error }) => {
        this.pendingOutcomes -= 1;
        if (this.isDone) return;
        this.wake(journaled, error === undefined ? { status: "completed" } : { status: "failed", error }, json);
        this.processSoon();
      });
      return journaled;
    }
    const published = this.topics.publishFrom(report, this.now);
    if ("code" in published) {
      this.settle(journaled, { status: "failed", error: { ...published, attempts: 1 } }, "null");
      return journaled;
    }
    const { id, event } = published;
    this.settle(journaled, { status: "completed" }, JSON.stringify({ id, topic, created: event !== undefined }));
    if (event !== undefined) this.soon(() => this.deliver(event));
    return journaled;
  }

  private call(report: Report & { kind: "call" }): JournalStep {
    const { step, workflow: name, input, timeoutMs = Number.POSITIVE_INFINITY } = report;
    const journaled = this.journalStep(step, "call", 1);
    const mock = this.mock(step);
    const called = this.options.workflows?.find((one) => one.name === name && (report.version === undefined || one.version === report.version));
    this.pendingOutcomes += 1;
    const result = mock === undefined ? this.child(step, name, called, JSON.parse(input)) : runMock(mock, { attempt: 1, input: JSON.parse(input) });
    void result.then(({ json, error, ms }) => {
      this.pendingOutcomes -= 1;
      if (this.isDone) return;
      const late = { code: "STEP_TIMEOUT", message: `child run of ${name} did not end in time`, attempts: 1 };
      const why = ms > timeoutMs ? late : error;
      const end = () => this.wake(journaled, why === undefined ? { status: "completed" } : { status: "failed", error: why }, why === undefined ? json : "null");
      const took = Math.min(ms, timeoutMs);
      if (took === 0) end();
      else if (took < Number.POSITIVE_INFINITY) this.after(took, end);
      this.processSoon();
    });
    return journaled;
  }

  private async child(step: string, name: string, called: Testable<any, any> | undefined, input: unknown): Promise<ChildEnd> {
    if (called === undefined) {
      const message = `workflow ${name} is not among the test's workflows, and step "${step}" is not mocked`;
      return { json: "null", error: { code: "WORKFLOW_NOT_FOUND", message, attempts: 1 }, ms: 0 };
    }
    const steps: Record<string, Mock> = {};
    for (const [key, mock] of this.mocks) if (key.startsWith(`${step}/`)) steps[key.slice(step.length + 1)] = mock;
    const ended = await test(called, { input, steps, workflows: this.options.workflows ?? [], now: this.now, allowUnawaited: true });
    this.unawaited.push(...ended.unawaited.map((name) => `${step}/${name}`));
    for (const published of ended.published) {
      const event = this.topics.publishOfChild(step, published);
      this.after(event.atMs - this.now, () => this.deliver(event));
    }
    for (const used of Object.keys(steps)) if (!ended.unused.includes(used)) this.unused.delete(`${step}/${used}`);
    if (ended.status === "completed") return { json: JSON.stringify(ended.output), error: undefined, ms: ended.slept };
    const { code, message } = ended.error ?? { code: "CHILD_FAILED", message: `it is ${ended.status}` };
    const ms = ended.status === "waiting" ? Number.POSITIVE_INFINITY : ended.slept;
    return { json: "null", error: { code, message: `child run of ${name} failed: ${message}`, attempts: 1 }, ms };
  }

  private journalStep(name: string, kind: StepKind, attempts: number): JournalStep {
    const before = this.journal.get(name);
    if (before !== undefined) {
      before.step.attempts = attempts;
      return before;
    }
    const startedAt = new Date(this.now);
    const step: TestStep = { name, kind, status: "open", attempts, output: null, error: null, startedAt, endedAt: null, logs: [] };
    const journaled: JournalStep = { record: { step: name, kind, seq: ++this.seq, status: "open" }, json: "null", step };
    this.journal.set(name, journaled);
    return journaled;
  }

  private settle(journaled: JournalStep, outcome: Outcome, json: string): void {
    const { step, kind } = journaled.record;
    journaled.record = { step, kind, seq: ++this.seq, ...outcome };
    journaled.json = json;
    journaled.step.status = outcome.status === "failed" ? "failed" : "completed";
    journaled.step.endedAt = new Date(this.now);
    journaled.step.output = JSON.parse(json);
    journaled.step.error = outcome.error === undefined ? null : { code: outcome.error.code, message: outcome.error.message };
  }

  private wake(journaled: JournalStep, outcome: Outcome, json: string): void {
    this.settle(journaled, outcome, json);
    this.notify(journaled);
  }

  /** Wakes the function, unless the worker is lost at this point. */
  private notify(journaled: JournalStep): void {
    if (this.crashAfter.delete(journaled.record.step)) return this.crash();
    this.replay.wake(recordOf(journaled));
    this.processSoon();
  }

  private signal(signal: TestSignal): void {
    const wait = this.waits.find((wait) => accepts(wait, signal));
    if (wait === undefined) this.dropped.push(signal);
    else this.resolve(wait, signal);
  }

  private resolve(wait: Wait, signal: TestSignal): void {
    if (!wait.isOpen) return void this.dropped.push(signal);
    wait.isOpen = false;
    this.wake(this.journal.get(wait.step) as JournalStep, { status: "resolved" }, JSON.stringify(signal.payload) ?? "null");
  }

  /** Publishes an event of the test at its time. */
  private schedule(event: TestEvent, at: NonNullable<TestEvent["at"]>): void {
    const what = `the time of event "${event.topic}"`;
    const ms = at instanceof Date ? moment(at, what) - this.began : milliseconds(at, what);
    // An event from before the start has no effect unless a wait looks back to it.
    if (ms < 0) this.topics.publish(event, this.began + ms);
    else this.after(ms, () => this.deliver(this.topics.publish(event, this.now)));
  }

  /** An event resolves every open wait that it matches. */
  private deliver(event: KeptEvent): void {
    for (const wait of this.waits) if (wait.isByTopic && wait.isOpen && this.topics.matches(wait, event)) this.receive(wait, event);
  }

  private receive(wait: Wait, event: KeptEvent): void {
    if (!wait.isOpen) return;
    wait.isOpen = false;
    this.topics.received(event);
    this.wake(this.journal.get(wait.step) as JournalStep, { status: "resolved", event: event.ref }, event.json);
  }

  private cancel(): void {
    this.replay.abort("the run was cancelled");
    this.finish("cancelled", null, { code: "CANCELLED", message: "the run was cancelled" });
  }

  private runError(error: ReportedError, step: string | undefined): TestResult<unknown>["error"] {
    const why: TestResult<unknown>["error"] = { code: error.code ?? "ERROR", message: error.message };
    if (step !== undefined) {
      why.step = step;
      why.attempts = this.journal.get(step)?.step.attempts ?? 1;
    }
    return why;
  }

  private finish(status: TestResult<unknown>["status"], output: unknown, error: TestResult<unknown>["error"]): void {
    if (this.isDone) return;
    this.isDone = true;
    this.replay.isOver = true;
    if (status === "completed" || status === "failed") this.replay.end();
    const steps = [...this.journal.values()].sort((a, b) => a.record.seq - b.record.seq).map((journaled) => journaled.step);
    const unused = [...new Set([...this.unused, ...this.crashAfter, ...this.crashDuring])];
    const dropped = [...this.dropped, ...this.onDemand];
    const { logs, unawaited, turn: turns } = this;
    const { published, unreceived } = this.topics;
    this.done({ status, output, error, steps, slept: this.now - this.began, turns, logs, dropped, published, unreceived, unawaited, unused });
  }
}

/** How a step of the journal ends. */
type Outcome = Pick<StepRecord, "status" | "error" | "event">;

interface ChildEnd {
  json: string;
  error: { code: string; message: string; attempts: number } | undefined;
  /** Its duration in simulated time; infinite if it waits for a signal that never arrives. */
  ms: number;
}

async function runMock(mock: Exclude<Mock, Json>, step: { attempt: number; input: unknown }): Promise<ChildEnd> {
  try {
    const value: unknown = await mock(step);
    return { json: JSON.stringify(value) ?? "null", error: undefined, ms: 0 };
  } catch (error) {
    const { code = "CHILD_FAILED", message } = reportedError(error);
    return { json: "null", error: { code, message, attempts: 1 }, ms: 0 };
  }
}

/** The record of a step, with its output or payload. */
function recordOf(journaled: JournalStep): StepRecord {
  const { record, json } = journaled;
  if (record.status === "completed") return { ...record, output: JSON.parse(json) };
  return record.status === "resolved" ? { ...record, payload: JSON.parse(json) } : record;
}

/** The backoff after so many failed attempts, without jitter. */
function backoffMs({ backoff: { kind, baseMs, maxMs } }: RetryPolicy, failures: number): number {
  const plain = kind === "fixed" ? baseMs : kind === "linear" ? baseMs * failures : baseMs * 2 ** (failures - 1);
  return Math.min(plain, maxMs);
}

function accepts(wait: Wait, signal: TestSignal): boolean {
  return wait.isOpen && wait.event === signal.event && (wait.match === undefined || contains(copy(signal.payload), wait.match));
}

function copy(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

function namesOf(names: string | readonly string[] | undefined): readonly string[] {
  return names === undefined ? [] : typeof names === "string" ? [names] : names;
}
