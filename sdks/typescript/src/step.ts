// A step of a function that runs here.

import { AsyncResource } from "node:async_hooks";
import type { StepCtx } from "./context.js";
import type { Lines } from "./log.js";
import { RETRY } from "./policy.js";
import type { Kind, Report, Retry } from "./wire.js";

/** A step that the function has asked for. */
export class Step {
  state: "held" | "running" | "reported" | "open" | "settled" = "held";
  attempt = 1;
  began = 0;
  json = "null";
  lines: Lines | undefined = undefined;
  /** Where it was asked for: a later attempt finds the same AsyncLocalStorage there as the first. */
  readonly scope: AsyncResource | undefined;
  promise!: Promise<unknown>;
  resolve!: (value: unknown) => void;
  reject!: (error: unknown) => void;

  constructor(
    readonly name: string,
    readonly kind: Kind,
    /** What a step of kind `run` performs. */
    readonly fn: ((step: StepCtx) => unknown) | undefined,
    readonly retry: Retry,
    /** What any other step tells the journal. */
    readonly opening: Report | undefined,
  ) {
    this.scope = fn === undefined ? undefined : new AsyncResource("EverstepStep");
  }
}

/** A step that the function has the result of: only its name counts still. */
export const SPENT: Step = new Step("", "run", undefined, RETRY, undefined);
SPENT.state = "settled";
