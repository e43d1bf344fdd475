// Runs a workflow in a unit test: no server, and time advances as soon as nothing else can run.
// The function is replayed by the same code as in a worker.

import "./node-version.js";

import { AssertionError } from "node:assert";
import type { Duration } from "./duration.js";
import { checkOptions } from "./options.js";
import { unawaitedMessage } from "./run-log.js";
import { TestRun } from "./test-run.js";
import type { Context, Json, Jsonify, RunTrigger } from "./types.js";
import type { StepKind } from "./wire.js";

/** A workflow as `workflow()` returns it. */
export interface Testable<Input, Output> {
  readonly name: string;
  readonly version: number;
  readonly run: (ctx: Context, input: Input) => Promise<Output> | Output;
}

/** The output of a step in place of that of its function, of the workflow that it calls, or of the event that it publishes. */
export type Mock = Json | ((step: { readonly attempt: number; readonly input?: unknown }) => unknown);

export interface TestSignal {
  event: string;
  payload?: unknown;
  /** The time of the signal after the start. Default: as soon as a wait is open for it. */
  at?: Duration;
}

/** An event that is published during the test. */
export interface TestEvent {
  topic: string;
  data?: unknown;
  /** Default: `api`. */
  source?: string;
  /**
   * The time of the event: after the start, or a Date, which may be before the start of the run. Default: as soon as a
   * wait is open for it.
   */
  at?: Duration | Date;
}

/** An event that a step has published. */
export interface TestPublished {
  /** A step of a called workflow is named `call/step`. */
  step: string;
  id: string;
  /** The id that the function has given to the event; else the name of the step. */
  eventId: string;
  topic: string;
  data: Json;
  subject?: string;
  at: Date;
}

export interface TestOptions<Input> {
  input: Input;
  /** The event that has started the run, for `ctx.trigger`. */
  trigger?: Partial<RunTrigger>;
  /** Mocks by the name of the step. A step of a called workflow is named `call/step`. */
  steps?: Record<string, Mock>;
  signals?: readonly TestSignal[];
  /** Published events. Those of publish steps are published too. */
  events?: readonly TestEvent[];
  /** Workflows that `ctx.step.call` may start. */
  workflows?: readonly Testable<any, any>[];
  /** When the run begins. */
  now?: Date | string | number;
  /** The worker is lost after the results of these steps are in the journal, each once. */
  crashAfter?: string | readonly string[];
  /** The worker is lost when the functions of these steps have ended, each once: their outcome is not in the journal. */
  crashDuring?: string | readonly string[];
  /** The time of the cancellation after the start. */
  cancelAt?: Duration;
  /** Allows the function to end while steps run or have failed that it does not await. Default: the test rejects. */
  allowUnawaited?: boolean;
}

export interface TestStep {
  name: string;
  kind: StepKind;
  status: "completed" | "failed" | "open";
  attempts: number;
  output: Json | null;
  error: { code: string; message: string } | null;
  startedAt: Date;
  endedAt: Date | null;
  logs: string[];
}

export interface TestResult<Output> {
  /** `waiting`: for a signal or event that never arrives. `diverged`: function and journal disagree. */
  status: "completed" | "failed" | "cancelled" | "waiting" | "diverged";
  /** The return value of the workflow; null unless it has completed. */
  output: Output | null;
  error: { code: string; message: string; step?: string; attempts?: number } | null;
  /** In the order of the journal. */
  steps: TestStep[];
  /** The duration of the run in milliseconds; all of it was skipped. */
  slept: number;
  /** How often the function was started. */
  turns: number;
  /** Log lines of the function outside steps. */
  logs: string[];
  /** Signals without a wait. */
  dropped: TestSignal[];
  /** Events that publish steps have published, in order. */
  published: TestPublished[];
  /** Events of the test that have resolved no wait. */
  unreceived: TestEvent[];
  /** Steps that still ran or had failed when the function ended, and that it did not await; at most 20. */
  unawaited: string[];
  /** Mocks that were not used, and steps of `crashAfter` and `crashDuring` that never ran. */
  unused: string[];
}

/**
 * Runs a workflow to its end, or until it waits for a signal or event that never arrives. Rejects with an `AssertionError` if the
 * function ends without awaiting all of its steps, unless `allowUnawaited` is set.
 */
export function test<Input, Output>(workflow: Testable<Input, Output>, options: TestOptions<NoInfer<Input>>): Promise<TestResult<Jsonify<Output>>> {
  checkOptions(options, TEST_OPTIONS, "a test");
  return new Promise((resolve, reject) => {
    const done = (result: TestResult<unknown>) => {
      if (result.unawaited.length === 0 || options.allowUnawaited === true) return resolve(result as TestResult<Jsonify<Output>>);
      const message = unawaitedMessage(result.status === "failed" ? "threw" : "returned", result.unawaited);
      reject(new AssertionError({ message: `workflow ${workflow.name}: ${message} (allowUnawaited: true permits this)` }));
    };
    try {
      new TestRun(workflow as Testable<unknown, unknown>, options, done).begin();
    } catch (error) {
      reject(error);
    }
  });
}

const TEST_OPTIONS = {
  input: true,
  trigger: true,
  steps: true,
  signals: true,
  events: true,
  workflows: true,
  now: true,
  crashAfter: true,
  crashDuring: true,
  cancelAt: true,
  allowUnawaited: true,
} as const;
