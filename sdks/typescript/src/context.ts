// The arguments of user code: `ctx` and `ctx.step` of a workflow's function, and the argument of a step's function.

import { type Duration, milliseconds, moment } from "./duration.js";
import { encodeJson } from "./json.js";
import type { LogLevel } from "./log.js";
import { checkOptions, checkTopic } from "./options.js";
import type { Replay } from "./replay.js";
import { messageOf } from "./reported-error.js";
import { DEFAULT_RETRY, retryPolicy } from "./retry.js";
import { Step } from "./step.js";
import type { CallOptions, Context, Logger, PublishOptions, RunOptions, RunTrigger, StepContext, Steps, WaitOptions, WorkflowRef } from "./types.js";
import type { Report, Since, StepKind } from "./wire.js";

const RUN_OPTIONS = { retry: true } as const;
const WAIT_OPTIONS = { event: true, match: true, timeout: true, since: true, withEvent: true } as const;
const PUBLISH_OPTIONS = { topic: true, data: true, id: true, subject: true } as const;
const CALL_OPTIONS = { version: true, timeout: true } as const;
const STEP_NAME = /^[a-zA-Z0-9._-]{1,128}$/;

/** `ctx`. All properties are own and enumerable, and those of `ctx.step` are bound functions: both may be spread and destructured. */
export class FunctionContext implements Context {
  // One getter for all contexts: to create one per context would take a microsecond.
  static readonly #signal: PropertyDescriptor & ThisType<FunctionContext> = {
    enumerable: true,
    get() {
      return this.#replay.signal;
    },
  };
  readonly step: Steps;
  readonly attempt: number;
  readonly run: Context["run"];
  readonly trigger: RunTrigger | null;
  readonly log: Logger;
  declare readonly signal: AbortSignal;
  readonly #replay: Replay;

  constructor(replay: Replay) {
    const { run, workflow, version, startedAt, trigger } = replay.source;
    this.#replay = replay;
    this.step = new FunctionSteps(replay);
    this.attempt = replay.turn;
    this.run = { id: run, workflow, version, startedAt: new Date(startedAt) };
    this.trigger = trigger ?? null;
    this.log = logOf(replay, undefined);
    Object.defineProperty(this, "signal", FunctionContext.#signal);
  }
}

/** `ctx.step`. */
class FunctionSteps implements Steps {
  readonly #replay: Replay;

  constructor(replay: Replay) {
    this.#replay = replay;
  }

  // Not async: the caller awaits the promise of the step itself. Wrong arguments throw at once.

  readonly run = (name: string, fn: (step: StepContext) => unknown, options?: RunOptions): Promise<never> => {
    checkStepName(name);
    if (typeof fn !== "function") throw new TypeError(`step "${name}" has no function`);
    if (options !== undefined && "timeout" in options) {
      throw new TypeError(`step "${name}" cannot have a timeout: use AbortSignal.timeout in it, or race it with a sleep`);
    }
    checkOptions(options, RUN_OPTIONS, `step "${name}"`);
    return this.#replay.ask(new Step(name, "run", fn, retryPolicy(options?.retry), undefined)) as Promise<never>;
  };

  readonly sleep = (name: string, duration: number | string): Promise<never> => {
    return this.#open("sleep", name, { kind: "sleep", step: name, forMs: milliseconds(duration, `the sleep of step "${name}"`) });
  };

  readonly sleepUntil = (name: string, when: Date | string | number): Promise<never> => {
    return this.#open("sleep", name, { kind: "sleep", step: name, untilMs: moment(when, `the end of step "${name}"`) });
  };

  readonly waitForEvent = (name: string, options: WaitOptions & { withEvent?: boolean } = {}): Promise<never> => {
    checkOptions(options, WAIT_OPTIONS, `step "${name}"`);
    const report: Report & { kind: "wait" } = { kind: "wait", step: name };
    if (options.event !== undefined) report.event = options.event;
    if (options.match !== undefined) report.match = json(options.match, `the match of step "${name}"`, exact);
    if (options.timeout !== undefined) report.timeoutMs = milliseconds(options.timeout, `the timeout of step "${name}"`);
    if (options.since !== undefined) report.since = since(options, name);
    return this.#open("wait", name, report, options.withEvent === true);
  };

  readonly publish = (name: string, event: PublishOptions): Promise<never> => {
    checkOptions(event, PUBLISH_OPTIONS, `step "${name}"`);
    checkTopic(event.topic, `the topic of step "${name}"`);
    const report: Report = { kind: "publish", step: name, topic: event.topic, data: json(event.data, `the data of step "${name}"`) };
    if (event.id !== undefined) report.id = event.id;
    if (event.subject !== undefined) report.subject = event.subject;
    return this.#open("publish", name, report);
  };

  readonly call = (name: string, workflow: WorkflowRef | string, input: unknown, options: CallOptions = {}): Promise<never> => {
    checkOptions(options, CALL_OPTIONS, `step "${name}"`);
    const called = typeof workflow === "string" ? workflow : workflow.name;
    const version = options.version ?? (typeof workflow === "string" ? undefined : workflow.version);
    const report: Report = { kind: "call", step: name, workflow: called, input: json(input, `the input of step "${name}"`) };
    if (version !== undefined) report.version = version;
    if (options.timeout !== undefined) report.timeoutMs = milliseconds(options.timeout, `the timeout of step "${name}"`);
    return this.#open("call", name, report);
  };

  #open(kind: Exclude<StepKind, "run">, name: string, report: Report, isEventWanted = false): Promise<never> {
    checkStepName(name);
    const step = new Step(name, kind, undefined, DEFAULT_RETRY, report);
    step.isEventWanted = isEventWanted;
    return this.#replay.ask(step) as Promise<never>;
  }
}

/** The argument of a step's function. */
export class AttemptContext implements StepContext {
  readonly attempt: number;
  readonly #replay: Replay;
  readonly #step: Step;
  #log: Logger | undefined;

  constructor(replay: Replay, step: Step) {
    this.#replay = replay;
    this.#step = step;
    this.attempt = step.attempt;
  }

  get signal(): AbortSignal {
    return this.#replay.signal;
  }

  get log(): Logger {
    this.#log ??= logOf(this.#replay, this.#step);
    return this.#log;
  }

  get idempotencyKey(): string {
    return `${this.#replay.id}:${this.#step.name}`;
  }
}

function logOf(replay: Replay, step: Step | undefined): Logger {
  const write = (level: LogLevel) => (message: string, fields?: object) => replay.log(step, level, message, fields);
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/** Throws unless it is the name of a step. */
function checkStepName(name: string): void {
  if (typeof name !== "string" || !STEP_NAME.test(name)) {
    throw new TypeError(`a step's name has 1 to 128 letters, digits, dots, underscores and hyphens: ${JSON.stringify(name)} does not`);
  }
}

/** From when on a wait looks for events. */
function since({ event, since }: WaitOptions, name: string): Since {
  if (event === undefined) throw new TypeError(`step "${name}" has "since" without "event": only published events are kept, and a wait receives them by the name of their topic`);
  if (since === "start") return "start";
  if (since instanceof Date) return { atMs: moment(since, `"since" of step "${name}"`) };
  return { agoMs: milliseconds(since as Duration, `"since" of step "${name}"`) };
}

/** JSON text; null for undefined. */
function json(value: unknown, what: string, replacer?: (key: string, value: unknown) => unknown): string {
  try {
    return encodeJson(value, replacer) ?? "null";
  } catch (error) {
    throw new TypeError(`${what} cannot be written as JSON: ${messageOf(error)}`);
  }
}

/** Rejects values that JSON would leave out or change: a match without them would accept other signals and events. */
function exact(key: string, value: unknown): unknown {
  const isKept = typeof value === "number" ? Number.isFinite(value) : value !== undefined && typeof value !== "function" && typeof value !== "symbol";
  if (!isKept) throw new TypeError(`${JSON.stringify(key)} is ${String(value)}`);
  return value;
}
