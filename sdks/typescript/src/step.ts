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
  /** Of a wait: the function receives the event together with its data. */
  isEventWanted = false;
  /** How many results the function had received when it asked for the step. */
  deliveriesBefore = 0;
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

/**
 * The promise of a step. It records how it is used:
 *
 * 1. `await` reads `constructor`, and does not call `then` if that is `Promise`.
 * 2. `then`, `catch`, `finally`, `Promise.race`, `any`, `all` and `allSettled` call `then`, usually at once.
 * 3. An async function that returns the promise calls `then` in a later microtask.
 */
export class StepPromise extends Promise<unknown> {
  /** Something awaits the promise, or handles it. */
  isAwaited = false;
  /** The code that asked for the step has attached a handler at once, or has passed the promise to a function such as `Promise.race`. */
  isHandled = false;
  private readonly section = currentSection();

  static {
    // A class cannot declare an accessor of this name.
    Object.defineProperty(StepPromise.prototype, "constructor", {
      configurable: true,
      get(this: StepPromise) {
        this.isAwaited = true;
        return Promise;
      },
    });
  }

  override then<A = unknown, B = never>(onValue?: ((value: unknown) => A | PromiseLike<A>) | null, onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    this.isAwaited = true;
    if (this.section === currentSection()) this.isHandled = true;
    return super.then(onValue, onError);
  }

  /** Keeps a rejection that is never awaited from ending the process. */
  ignoreRejection(): void {
    const { isAwaited } = this;
    super.then(undefined, () => {});
    this.isAwaited = isAwaited;
  }
}

let section = 0;
let isSectionEnding = false;

/** The number of the section of code that runs now. A section ends at the next microtask. */
function currentSection(): number {
  if (!isSectionEnding) {
    isSectionEnding = true;
    queueMicrotask(endSection);
  }
  return section;
}

function endSection(): void {
  isSectionEnding = false;
  section += 1;
}

/** Represents every step whose result the function has received: only the name is still needed. */
export const SETTLED_STEP: Step = new Step("", "run", undefined, DEFAULT_RETRY, undefined);
SETTLED_STEP.state = "settled";
