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
  promise!: StepPromise;
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

/** The promise of a step. It records whether anything awaits it, directly or by `then`, `Promise.race` and the like. */
export class StepPromise extends Promise<unknown> {
  isAwaited = false;

  /** Promises that are derived from it are plain ones. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = unknown, B = never>(onValue?: ((value: unknown) => A | PromiseLike<A>) | null, onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    this.isAwaited = true;
    return super.then(onValue, onError);
  }

  /** Keeps a rejection that is never awaited from ending the process. */
  ignoreRejection(): void {
    super.then(undefined, () => {});
  }
}

/** Represents every step whose result the function has received: only the name is still needed. */
export const SETTLED_STEP: Step = new Step("", "run", undefined, DEFAULT_RETRY, undefined);
SETTLED_STEP.state = "settled";
