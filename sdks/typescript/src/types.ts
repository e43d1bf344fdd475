// What a workflow looks like to those who write, start and test it.

import type { Duration } from "./duration.js";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** What is left of a value once it was written as JSON and read again: the journal keeps nothing else. */
export type Jsonify<T> = unknown extends T ? T : [T] extends [Json] ? T : Written<T>;

type Written<T> = T extends string | number | boolean | null
  ? T
  : T extends undefined | void
    ? null
    : T extends bigint | symbol | AnyFunction
      ? never
      : T extends { toJSON(...args: never[]): infer R }
        ? Jsonify<R>
        : T extends readonly unknown[]
          ? { [K in keyof T]: Jsonify<T[K]> }
          : T extends ArrayBufferView
            ? Record<string, number>
            : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown> | RegExp
              ? {}
              : {
                  [K in keyof T as K extends symbol | Hidden<T> ? never : T[K] extends AnyFunction ? never : K]:
                    | Jsonify<Exclude<T[K], undefined>>
                    | Extract<T[K], undefined>;
                };

type AnyFunction = (...args: never[]) => unknown;
/** What JSON does not see of an error. An object that has but a name and a message is none. */
type Hidden<T> = T extends Error ? (keyof Error extends keyof T ? keyof Error : never) : never;

/** A workflow by its name and version, with the types of what goes in and comes out. */
export interface WorkflowRef<Input = unknown, Output = unknown> {
  readonly name: string;
  readonly version: number;
  /** Only types: there is no such property. */
  readonly types?: { input: Input; output: Output };
}

/** The input of a workflow; anything for one that is named by text. */
export type InputOf<W> = W extends WorkflowRef<infer Input, any> ? Input : unknown;
/** The output of a workflow as others see it; anything for one that is named by text. */
export type OutputOf<W> = W extends WorkflowRef<any, infer Output> ? Jsonify<Output> : unknown;

/** Nothing for an input that JSON keeps as it is; for any other a property that nobody has, so that the compiler refuses it. */
export type Kept<Input> = [Input, Jsonify<Input>] extends [Jsonify<Input>, Input]
  ? unknown
  : { "the input is not JSON: the function would get": Jsonify<Input> };

export interface Definition<Input, Output> {
  /** Of `a-z`, `0-9`, `_` and `-`, at most 128 characters. */
  name: string;
  /** Counts from 1. A run stays with the version that it began with. */
  version?: number;
  /** How long a run is kept after its end: "30d", or a number of days. The server's default is 30 days. */
  retention?: Duration;
  run: (ctx: Context, input: Input) => Promise<Output> | Output;
}

export interface Context {
  readonly step: Steps;
  /** Aborted when the run is cancelled, is not this worker's any more, or has ended while steps still run. */
  readonly signal: AbortSignal;
  /** Silent while the function is replayed. */
  readonly log: Log;
  /** How often this run was begun by a worker: the number of its turn. */
  readonly attempt: number;
  readonly run: { readonly id: string; readonly workflow: string; readonly version: number; readonly startedAt: Date };
}

export interface Steps {
  /** Runs `fn` once and keeps what it returns. `fn` runs again when it throws, or when the worker is lost. */
  run<T>(name: string, fn: (step: StepContext) => T, options?: RunOptions): Promise<Jsonify<Awaited<T>>>;
  /** Sleeps, across restarts too. */
  sleep(name: string, duration: Duration): Promise<void>;
  /** Sleeps until a moment. */
  sleepUntil(name: string, when: Date | string | number): Promise<void>;
  /** Waits for a signal; null when the time is over. A signal without a payload gives `{}`. */
  waitForEvent<T = Json>(name: string, options?: WaitOptions): Promise<T | null>;
  /** Starts another workflow and waits for what it returns. */
  call<W extends WorkflowRef<any, any> | string>(
    name: string,
    workflow: W,
    input: InputOf<W>,
    options?: CallOptions,
  ): Promise<OutputOf<W>>;
}

export interface StepContext {
  readonly attempt: number;
  /** The run's signal. */
  readonly signal: AbortSignal;
  /** What is logged here is kept with the step. */
  readonly log: Log;
  /** The same for every attempt of this step, and for no other step. */
  readonly idempotencyKey: string;
}

export interface RunOptions {
  retry?: RetryOptions;
}

export interface RetryOptions {
  /** How often the step is tried at most. 3 if it is not given. */
  attempts?: number;
  /** `{ kind: "exp", base: "1s", max: "60s", jitter: 0.2 }` if it is not given. */
  backoff?: { kind?: "fixed" | "linear" | "exp"; base?: Duration; max?: Duration; jitter?: number };
}

export interface WaitOptions {
  /** The signal's name; the step's name if it is not given. */
  event?: string;
  /** What the signal's payload must contain. */
  match?: { readonly [key: string]: unknown };
  timeout?: Duration;
}

export interface CallOptions {
  /** The version of a workflow that is named by text. */
  version?: number;
  timeout?: Duration;
}

export interface Log {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}
