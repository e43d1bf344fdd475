// Runs a workflow in a unit test: no server, and time that passes as soon as nothing else is to be done.
// The function is replayed by the same code as in a worker.

import type { Duration } from "./duration.js";
import { checkOptions } from "./options.js";
import { Rehearsal } from "./rehearsal.js";
import type { Context, Json, Jsonify } from "./types.js";
import type { Kind } from "./wire.js";

/** A workflow as `workflow()` makes it. */
export interface Testable<Input, Output> {
  readonly name: string;
  readonly version: number;
  readonly run: (ctx: Context, input: Input) => Promise<Output> | Output;
}

/** What a step gives in place of what its own function, or the workflow that it calls, would give. */
export type Mock = Json | ((step: { readonly attempt: number; readonly input?: unknown }) => unknown);

export interface TestSignal {
  event: string;
  payload?: unknown;
  /** How long after the start it comes. Without it, it comes as soon as something waits for it. */
  at?: Duration;
}

export interface TestOptions<Input> {
  input: Input;
  /** Steps by name that are not to be run. Steps of a called workflow are named `call/step`. */
  steps?: Record<string, Mock>;
  signals?: readonly TestSignal[];
  /** Workflows that `ctx.step.call` may start. */
  workflows?: readonly Testable<any, any>[];
  /** When the run begins. */
  now?: Date | string | number;
  /** The worker is lost after the results of these steps are in the journal, each once. */
  crashAfter?: string | readonly string[];
  /** The worker is lost when the functions of these steps have ended, each once: nobody knows what they gave. */
  crashDuring?: string | readonly string[];
  /** The run is cancelled so long after its start. */
  cancelAt?: Duration;
}

export interface TestStep {
  name: string;
  kind: Kind;
  status: "completed" | "failed" | "open";
  attempts: number;
  output: Json | null;
  error: { code: string; message: string } | null;
  startedAt: Date;
  endedAt: Date | null;
  logs: string[];
}

export interface TestResult<Output> {
  /** `waiting`: for a signal that does not come. `diverged`: function and journal disagree. */
  status: "completed" | "failed" | "cancelled" | "waiting" | "diverged";
  /** What the workflow returned; null unless it has completed. */
  output: Output | null;
  error: { code: string; message: string; step?: string; attempts?: number } | null;
  /** In the order in which they came to the journal. */
  steps: TestStep[];
  /** Milliseconds of the run, all of them skipped. */
  slept: number;
  /** How often the function was begun. */
  turns: number;
  /** What the function logged outside steps. */
  logs: string[];
  /** Signals that nothing waited for. */
  dropped: TestSignal[];
  /** Mocked steps that were not asked for, and those of `crashAfter` and `crashDuring` that never came. */
  unused: string[];
}

/** Runs a workflow to its end, or until it waits for what does not come. */
export function test<Input, Output>(workflow: Testable<Input, Output>, options: TestOptions<NoInfer<Input>>): Promise<TestResult<Jsonify<Output>>> {
  checkOptions(options, OPTIONS, "a test");
  return new Promise((resolve, reject) => {
    try {
      new Rehearsal(workflow as Testable<unknown, unknown>, options, resolve as (result: TestResult<unknown>) => void).begin();
    } catch (error) {
      reject(error);
    }
  });
}

const OPTIONS = { input: true, steps: true, signals: true, workflows: true, now: true, crashAfter: true, crashDuring: true, cancelAt: true } as const;
