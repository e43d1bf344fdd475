// A run in a unit test: the journal, the timers and the signals that a server would keep, in a time of their own.

import { milliseconds, moment } from "./duration.js";
import { describe, type Level } from "./log.js";
import { fault } from "./policy.js";
import { type Body, type Host, Replay } from "./replay.js";
import { type Mock, type TestOptions, type TestResult, type TestSignal, type TestStep, type Testable, test } from "./testing.js";
import type { Json } from "./types.js";
import type { Fault, Known, Kind, Report, Retry } from "./wire.js";

interface Entry {
  known: Known;
  /** The output or payload: every turn reads it anew. */
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
  match: unknown;
  isOpen: boolean;
}

let runs = 0;

export class Rehearsal implements Host {
  /** Fewer than a worker has: test runners give a test no more than a few seconds. */
  readonly rounds = 3;
  private readonly id: string;
  private readonly began: number;
  private now: number;
  private seq = 1;
  private turn = 0;
  private replay!: Replay;
  private readonly journal = new Map<string, Entry>();
  private timers: Timer[] = [];
  private readonly waits: Wait[] = [];
  private readonly onDemand: TestSignal[] = [];
  private readonly dropped: TestSignal[] = [];
  private readonly logs: string[] = [];
  private readonly mocks: Map<string, Mock>;
  private readonly unused: Set<string>;
  private readonly crashAfter: Set<string>;
  private readonly crashDuring: Set<string>;
  private inbox: Report[] = [];
  private isComing = false;
  private open = 0;
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
    this.crashAfter = new Set(listed(options.crashAfter));
    this.crashDuring = new Set(listed(options.crashDuring));
    for (const signal of options.signals ?? []) {
      if (signal.at === undefined) this.onDemand.push(signal);
      else this.after(milliseconds(signal.at, `the time of signal "${signal.event}"`), () => this.signal(signal));
    }
    if (options.cancelAt !== undefined) this.after(milliseconds(options.cancelAt, "cancelAt"), () => this.cancel());
  }

  begin(): void {
    this.turn += 1;
    const steps = [...this.journal.values()].map((entry) => told(entry)).sort((a, b) => a.seq - b.seq);
    const startedAt = new Date(this.began).toISOString();
    const { name, version } = this.workflow;
    const input = copy(this.options.input);
    this.replay = new Replay(this, { run: this.id, turn: this.turn, workflow: name, version, input, startedAt, seq: ++this.seq, steps });
    this.replay.begin(this.workflow.run as Body);
    this.come();
  }

  // What the function says. It is taken in once the function has done all that it can, as by a server.

  report(replay: Replay, report: Report): void {
    if (replay !== this.replay || this.isDone) return;
    replay.unanswered += 1;
    this.inbox.push(report);
    this.come();
  }

  mayStart(): boolean {
    return true;
  }

  stuck(replay: Replay): void {
    setTimeout(() => replay.patience(), 1_000);
  }

  quiet(): void {
    this.come();
  }

  idle(): void {}

  line(level: Level, message: string, fields: object | undefined, _replay: Replay, step: string | undefined): void {
    if (step === undefined) this.logs.push(describe(level, message, fields));
  }

  clock(): number {
    return performance.now();
  }

  mock(step: string): Exclude<Mock, Json> | undefined {
    this.unused.delete(step);
    const mock = this.mocks.get(step);
    return mock === undefined || typeof mock === "function" ? mock : () => mock;
  }

  private come(): void {
    if (this.isComing) return;
    this.isComing = true;
    setImmediate(() => {
      this.isComing = false;
      this.take();
    });
  }

  private take(): void {
    const inbox = this.inbox;
    this.inbox = [];
    for (const report of inbox) {
      if (this.isDone) return;
      const replay = this.replay;
      if ("step" in report && report.step !== undefined && "attempt" in report && this.crashDuring.delete(report.step)) return this.crash();
      const entry = this.write(report);
      if (this.isDone) return;
      replay.unanswered -= 1;
      if (report.kind === "completed" && this.crashAfter.delete(report.step)) return this.crash();
      replay.acknowledge(report, entry?.known.seq ?? 0);
      if (report.kind === "failed" && entry?.known.status === "failed") this.settled(entry);
      if (replay !== this.replay) return;
    }
    if (!this.isDone && this.open === 0 && this.replay.isBlocked(0)) this.pass();
  }

  /** Lets time pass up to what comes next. */
  private pass(): void {
    const next = this.timers.reduce<Timer | undefined>((first, timer) => (first === undefined || timer.at < first.at ? timer : first), undefined);
    if (next === undefined) return this.finish("waiting", null, null);
    this.timers = this.timers.filter((timer) => timer !== next);
    this.now = Math.max(this.now, next.at);
    next.fire();
    this.come();
  }

  private after(ms: number, fire: () => void): void {
    this.timers.push({ at: this.now + ms, fire });
  }

  /** The worker is lost: another takes the run from what the journal knows. */
  private crash(): void {
    this.inbox = [];
    this.replay.abort("the worker was lost");
    this.begin();
  }

  // The journal.

  private write(report: Report): Entry | undefined {
    switch (report.kind) {
      case "completed": {
        const entry = this.entry(report.step, "run", report.attempt);
        entry.step.logs.push(...(report.logs ?? []));
        this.settle(entry, { status: "completed" }, report.json);
        return entry;
      }
      case "failed":
        return this.failed(report);
      case "sleep": {
        const entry = this.entry(report.step, "sleep", 1);
        const ms = report.forMs ?? Math.max(0, (report.untilMs as number) - this.now);
        this.after(ms, () => this.wake(entry, { status: "slept" }, "null"));
        return entry;
      }
      case "wait":
        return this.wait(report);
      case "call":
        return this.call(report);
      case "returned":
        this.finish("completed", JSON.parse(report.json), null);
        return undefined;
      case "threw":
        this.finish("failed", null, this.why(report.error, report.step));
        return undefined;
      case "diverged":
        this.finish("diverged", null, this.why(report.error, undefined));
        return undefined;
      case "blocked":
      case "declined":
        return undefined;
    }
  }

  private failed(report: Report & { kind: "failed" }): Entry {
    const { step, attempt, error, retry, logs } = report;
    const entry = this.entry(step, "run", attempt);
    entry.step.logs.push(...(logs ?? []));
    entry.step.attempts = attempt;
    if (error.retryable === false || attempt >= retry.attempts) {
      this.settle(entry, { status: "failed", error: { code: error.code ?? "ERROR", message: error.message, attempts: attempt } }, "null");
      return entry;
    }
    entry.known = { step, kind: "run", seq: ++this.seq, status: "open" };
    this.after(delay(retry, attempt), () => {
      entry.known = { step, kind: "run", seq: ++this.seq, status: "retry", attempt: attempt + 1 };
      this.replay.wake(entry.known);
    });
    return entry;
  }

  private wait(report: Report & { kind: "wait" }): Entry {
    const entry = this.entry(report.step, "wait", 1);
    // What asks for nothing takes whatever comes.
    const match = report.match === undefined || report.match === "{}" ? undefined : JSON.parse(report.match);
    const wait: Wait = { step: report.step, event: report.event ?? report.step, match, isOpen: true };
    this.waits.push(wait);
    if (report.timeoutMs !== undefined) {
      this.after(report.timeoutMs, () => {
        if (!wait.isOpen) return;
        wait.isOpen = false;
        this.wake(entry, { status: "timedOut" }, "null");
      });
    }
    const at = this.onDemand.findIndex((signal) => takes(wait, signal));
    if (at >= 0) {
      const [signal] = this.onDemand.splice(at, 1);
      this.open += 1;
      setImmediate(() => {
        this.open -= 1;
        if (!this.isDone) this.resolve(wait, signal as TestSignal);
      });
    }
    return entry;
  }

  private call(report: Report & { kind: "call" }): Entry {
    const { step, workflow: name, input, timeoutMs = Number.POSITIVE_INFINITY } = report;
    const entry = this.entry(step, "call", 1);
    const mock = this.mock(step);
    const called = this.options.workflows?.find((one) => one.name === name && (report.version === undefined || one.version === report.version));
    this.open += 1;
    const result = mock === undefined ? this.child(step, name, called, JSON.parse(input)) : perform(mock, { attempt: 1, input: JSON.parse(input) });
    void result.then(({ json, error, ms }) => {
      this.open -= 1;
      if (this.isDone) return;
      const late = { code: "STEP_TIMEOUT", message: `child run of ${name} did not end in time`, attempts: 1 };
      const why = ms > timeoutMs ? late : error;
      const end = () => this.wake(entry, why === undefined ? { status: "completed" } : { status: "failed", error: why }, why === undefined ? json : "null");
      const took = Math.min(ms, timeoutMs);
      if (took === 0) end();
      else if (took < Number.POSITIVE_INFINITY) this.after(took, end);
      this.come();
    });
    return entry;
  }

  private async child(step: string, name: string, called: Testable<any, any> | undefined, input: unknown): Promise<Ended> {
    if (called === undefined) {
      const message = `workflow ${name} is not among the test's workflows, and step "${step}" is not mocked`;
      return { json: "null", error: { code: "WORKFLOW_NOT_FOUND", message, attempts: 1 }, ms: 0 };
    }
    const steps: Record<string, Mock> = {};
    for (const [key, mock] of this.mocks) if (key.startsWith(`${step}/`)) steps[key.slice(step.length + 1)] = mock;
    const ended = await test(called, { input, steps, workflows: this.options.workflows ?? [], now: this.now });
    for (const used of Object.keys(steps)) if (!ended.unused.includes(used)) this.unused.delete(`${step}/${used}`);
    if (ended.status === "completed") return { json: JSON.stringify(ended.output), error: undefined, ms: ended.slept };
    const { code, message } = ended.error ?? { code: "CHILD_FAILED", message: `it is ${ended.status}` };
    const ms = ended.status === "waiting" ? Number.POSITIVE_INFINITY : ended.slept;
    return { json: "null", error: { code, message: `child run of ${name} failed: ${message}`, attempts: 1 }, ms };
  }

  private entry(name: string, kind: Kind, attempts: number): Entry {
    const before = this.journal.get(name);
    if (before !== undefined) {
      before.step.attempts = attempts;
      return before;
    }
    const startedAt = new Date(this.now);
    const step: TestStep = { name, kind, status: "open", attempts, output: null, error: null, startedAt, endedAt: null, logs: [] };
    const entry: Entry = { known: { step: name, kind, seq: ++this.seq, status: "open" }, json: "null", step };
    this.journal.set(name, entry);
    return entry;
  }

  private settle(entry: Entry, what: Pick<Known, "status" | "error">, json: string): void {
    const { step, kind } = entry.known;
    entry.known = { step, kind, seq: ++this.seq, ...what };
    entry.json = json;
    entry.step.status = what.status === "failed" ? "failed" : "completed";
    entry.step.endedAt = new Date(this.now);
    entry.step.output = JSON.parse(json);
    entry.step.error = what.error === undefined ? null : { code: what.error.code, message: what.error.message };
  }

  private wake(entry: Entry, what: Pick<Known, "status" | "error">, json: string): void {
    this.settle(entry, what, json);
    this.settled(entry);
  }

  /** The function is told, unless the worker is lost right then. */
  private settled(entry: Entry): void {
    if (this.crashAfter.delete(entry.known.step)) return this.crash();
    this.replay.wake(told(entry));
    this.come();
  }

  private signal(signal: TestSignal): void {
    const wait = this.waits.find((wait) => takes(wait, signal));
    if (wait === undefined) this.dropped.push(signal);
    else this.resolve(wait, signal);
  }

  private resolve(wait: Wait, signal: TestSignal): void {
    if (!wait.isOpen) return void this.dropped.push(signal);
    wait.isOpen = false;
    this.wake(this.journal.get(wait.step) as Entry, { status: "resolved" }, JSON.stringify(signal.payload) ?? "null");
  }

  private cancel(): void {
    this.replay.abort("the run was cancelled");
    this.finish("cancelled", null, { code: "CANCELLED", message: "the run was cancelled" });
  }

  private why(error: Fault, step: string | undefined): TestResult<unknown>["error"] {
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
    const steps = [...this.journal.values()].sort((a, b) => a.known.seq - b.known.seq).map((entry) => entry.step);
    const unused = [...new Set([...this.unused, ...this.crashAfter, ...this.crashDuring])];
    const dropped = [...this.dropped, ...this.onDemand];
    this.done({ status, output, error, steps, slept: this.now - this.began, turns: this.turn, logs: this.logs, dropped, unused });
  }
}

interface Ended {
  json: string;
  error: { code: string; message: string; attempts: number } | undefined;
  /** How long it took, in the time of the test; without an end if it waits for what does not come. */
  ms: number;
}

async function perform(mock: Exclude<Mock, Json>, step: { attempt: number; input: unknown }): Promise<Ended> {
  try {
    const value: unknown = await mock(step);
    return { json: JSON.stringify(value) ?? "null", error: undefined, ms: 0 };
  } catch (error) {
    const { code = "CHILD_FAILED", message } = fault(error);
    return { json: "null", error: { code, message, attempts: 1 }, ms: 0 };
  }
}

/** What the function is told of an entry. */
function told(entry: Entry): Known {
  const { known, json } = entry;
  if (known.status === "completed") return { ...known, output: JSON.parse(json) };
  return known.status === "resolved" ? { ...known, payload: JSON.parse(json) } : known;
}

/** The pause after so many failed attempts, without jitter. */
function delay({ backoff: { kind, baseMs, maxMs } }: Retry, failures: number): number {
  const plain = kind === "fixed" ? baseMs : kind === "linear" ? baseMs * failures : baseMs * 2 ** (failures - 1);
  return Math.min(plain, maxMs);
}

function takes(wait: Wait, signal: TestSignal): boolean {
  return wait.isOpen && wait.event === signal.event && (wait.match === undefined || contains(copy(signal.payload), wait.match));
}

/** Whether a value contains a pattern, as PostgreSQL's `@>` has it. */
export function contains(value: unknown, pattern: unknown): boolean {
  if (Array.isArray(pattern)) return Array.isArray(value) && pattern.every((wanted) => value.some((one) => contains(one, wanted)));
  if (typeof pattern !== "object" || pattern === null) return value === pattern;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(pattern).every(([key, wanted]) => Object.hasOwn(value, key) && contains((value as Record<string, unknown>)[key], wanted));
}

function copy(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

function listed(names: string | readonly string[] | undefined): readonly string[] {
  return names === undefined ? [] : typeof names === "string" ? [names] : names;
}
