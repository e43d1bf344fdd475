// A step of a function that runs here.

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
  ) {}
}

/** A step that the function has the result of: only its name counts still. */
export const SPENT: Step = new Step("", "run", undefined, RETRY, undefined);
SPENT.state = "settled";
