// What a workflow's function is given: `ctx`, `ctx.step`, and the argument of a step's own function.

import { milliseconds, moment } from "./duration.js";
import type { Level } from "./log.js";
import { checkOptions } from "./options.js";
import { checkName, jsonOf, messageOf, RETRY, retryOf } from "./policy.js";
import type { Replay } from "./replay.js";
import { Step } from "./step.js";
import type { CallOptions, Context, Log, RunOptions, StepContext, Steps, WaitOptions, WorkflowRef } from "./types.js";
import type { Report } from "./wire.js";

const RUN = { retry: true } as const;
const WAIT = { event: true, match: true, timeout: true } as const;
const CALL = { version: true, timeout: true } as const;

/** All of it is its own and enumerable, and `ctx.step` has functions of its own: both may be spread and taken apart. */
export class Ctx implements Context {
  // One getter for all contexts: one of its own for each would take a microsecond.
  static readonly #signal: PropertyDescriptor & ThisType<Ctx> = {
    enumerable: true,
    get() {
      return this.#replay.signal;
    },
  };
  readonly step: Steps;
  readonly attempt: number;
  readonly run: Context["run"];
  readonly log: Log;
  declare readonly signal: AbortSignal;
  readonly #replay: Replay;

  constructor(replay: Replay) {
    const { run, workflow, version, startedAt } = replay.source;
    this.#replay = replay;
    this.step = new Asking(replay);
    this.attempt = replay.turn;
    this.run = { id: run, workflow, version, startedAt: new Date(startedAt) };
    this.log = logging(replay, undefined);
    Object.defineProperty(this, "signal", Ctx.#signal);
  }
}

class Asking implements Steps {
  readonly #replay: Replay;

  constructor(replay: Replay) {
    this.#replay = replay;
  }

  // Not async: the promise of the step is the one that is awaited. What is wrong with the arguments is thrown at once.

  readonly run = (name: string, fn: (step: StepContext) => unknown, options?: RunOptions): Promise<never> => {
    checkName(name);
    if (typeof fn !== "function") throw new TypeError(`step "${name}" has no function to run`);
    if (options !== undefined && "timeout" in options) {
      throw new TypeError(`step "${name}" cannot have a timeout: use AbortSignal.timeout in it, or race it with a sleep`);
    }
    checkOptions(options, RUN, `step "${name}"`);
    return this.#replay.ask(new Step(name, "run", fn, retryOf(options?.retry), undefined)) as Promise<never>;
  };

  readonly sleep = (name: string, duration: number | string): Promise<never> => {
    return this.#open("sleep", name, { kind: "sleep", step: name, forMs: milliseconds(duration, `the sleep of step "${name}"`) });
  };

  readonly sleepUntil = (name: string, when: Date | string | number): Promise<never> => {
    return this.#open("sleep", name, { kind: "sleep", step: name, untilMs: moment(when, `the end of step "${name}"`) });
  };

  readonly waitForEvent = (name: string, options: WaitOptions = {}): Promise<never> => {
    checkOptions(options, WAIT, `step "${name}"`);
    const report: Report = { kind: "wait", step: name };
    if (options.event !== undefined) report.event = options.event;
    if (options.match !== undefined) report.match = json(options.match, `the match of step "${name}"`, exact);
    if (options.timeout !== undefined) report.timeoutMs = milliseconds(options.timeout, `the timeout of step "${name}"`);
    return this.#open("wait", name, report);
  };

  readonly call = (name: string, workflow: WorkflowRef | string, input: unknown, options: CallOptions = {}): Promise<never> => {
    checkOptions(options, CALL, `step "${name}"`);
    const called = typeof workflow === "string" ? workflow : workflow.name;
    const version = options.version ?? (typeof workflow === "string" ? undefined : workflow.version);
    const report: Report = { kind: "call", step: name, workflow: called, input: json(input, `the input of step "${name}"`) };
    if (version !== undefined) report.version = version;
    if (options.timeout !== undefined) report.timeoutMs = milliseconds(options.timeout, `the timeout of step "${name}"`);
    return this.#open("call", name, report);
  };

  #open(kind: "sleep" | "wait" | "call", name: string, report: Report): Promise<never> {
    checkName(name);
    return this.#replay.ask(new Step(name, kind, undefined, RETRY, report)) as Promise<never>;
  }
}

export class StepCtx implements StepContext {
  readonly attempt: number;
  readonly #replay: Replay;
  readonly #step: Step;
  #log: Log | undefined;

  constructor(replay: Replay, step: Step) {
    this.#replay = replay;
    this.#step = step;
    this.attempt = step.attempt;
  }

  get signal(): AbortSignal {
    return this.#replay.signal;
  }

  get log(): Log {
    this.#log ??= logging(this.#replay, this.#step);
    return this.#log;
  }

  get idempotencyKey(): string {
    return `${this.#replay.id}:${this.#step.name}`;
  }
}

function logging(replay: Replay, step: Step | undefined): Log {
  const write = (level: Level) => (message: string, fields?: object) => replay.log(step, level, message, fields);
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/** JSON text; null for undefined. */
function json(value: unknown, what: string, replacer?: (key: string, value: unknown) => unknown): string {
  try {
    return jsonOf(value, replacer) ?? "null";
  } catch (error) {
    throw new TypeError(`${what} cannot be written as JSON: ${messageOf(error)}`);
  }
}

/** Refuses what JSON would leave out or change: a match without it would take other signals. */
function exact(key: string, value: unknown): unknown {
  const isKept = typeof value === "number" ? Number.isFinite(value) : value !== undefined && typeof value !== "function" && typeof value !== "symbol";
  if (!isKept) throw new TypeError(`${JSON.stringify(key)} is ${String(value)}`);
  return value;
}
