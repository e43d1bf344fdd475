// A step of a function that this process runs.

import { AsyncResource } from "node:async_hooks";
import type { AttemptContext } from "./context.js";
import type { LogLines } from "./log.js";
import { DEFAULT_RETRY } from "./retry.js";
import type { Report, RetryPolicy, StepKind } from "./wire.js";

/** A step that the function has asked for. */
export class Step {
  state: "held" | "running" | "reported" | "open" | "settled" = "held";
  attempt = 1;
  began = 0;
  json = "null";
  lines: LogLines | undefined = undefined;
  /** The async scope of the call: every attempt runs with the AsyncLocalStorage of the first. */
  readonly scope: AsyncResource | undefined;
  promise!: Promise<unknown>;
  resolve!: (value: unknown) => void;
  reject!: (error: unknown) => void;

  constructor(
    readonly name: string,
    readonly kind: StepKind,
    /** The function of a step of kind `run`. */
    readonly fn: ((step: AttemptContext) => unknown) | undefined,
    readonly retry: RetryPolicy,
    /** The report that opens a step of any other kind. */
    readonly opening: Report | undefined,
  ) {
    this.scope = fn === undefined ? undefined : new AsyncResource("EverstepStep");
  }
}

/** Stands for every step whose result the function has received: only the name is still needed. */
export const SETTLED_STEP: Step = new Step("", "run", undefined, DEFAULT_RETRY, undefined);
SETTLED_STEP.state = "settled";
