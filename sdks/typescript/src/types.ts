// Types of workflows, for programs that define, start and test them.

import type { Duration } from "./duration.js";

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A value after a round trip through JSON, as the journal stores it. */
export type Jsonify<T> = unknown extends T ? T : [T] extends [Json] ? T : RoundTripped<T>;

type RoundTripped<T> = T extends string | number | boolean | null
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
/** Properties of an error that JSON leaves out. An object with only a name and a message is not an error. */
type Hidden<T> = T extends Error ? (keyof Error extends keyof T ? keyof Error : never) : never;

/** A workflow by its name and version, with the types of its input and output. */
export interface WorkflowRef<Input = unknown, Output = unknown> {
  readonly name: string;
  readonly version: number;
  /** For the compiler only: the property does not exist at run time. */
  readonly types?: { input: Input; output: Output };
}

/** The input of a workflow; `unknown` for a workflow that is given by its name. */
export type InputOf<W> = W extends WorkflowRef<infer Input, any> ? Input : unknown;
/** The output of a workflow as JSON; `unknown` for a workflow that is given by its name. */
export type OutputOf<W> = W extends WorkflowRef<any, infer Output> ? Jsonify<Output> : unknown;

/** No constraint for an input that JSON preserves; for any other a property that no definition has, so that it does not compile. */
export type JsonInput<Input> = [Input, Jsonify<Input>] extends [Jsonify<Input>, Input]
  ? unknown
  : { "the input is not JSON: the function would get": Jsonify<Input> };

export interface Definition<Input, Output> {
  /** Of `a-z`, `0-9`, `_` and `-`, at most 128 characters. */
  name: string;
  /** Counts from 1. A run keeps the version that it was started with. */
  version?: number;
  /** How long a run is kept after its end: "30d", or a number of days. The server's default is 30 days. */
  retention?: Duration;
  /**
   * A JSON Schema (2020-12) of the input, at most 64 KiB. The server rejects a start whose input does not fit.
   * Libraries such as Zod and TypeBox generate one.
   */
  inputSchema?: Readonly<Record<string, unknown>>;
  /** The events that start a run, at most 20. The server applies the triggers of the active version. */
  triggers?: readonly EventTrigger[];
  /** Search attributes: at most 16 paths of the input, such as `customer` or `order.id`, by which runs are found in an index. */
  index?: readonly string[];
  run: (ctx: Context, input: Input) => Promise<Output> | Output;
}

/** A published event of a topic starts a run; the data of the event is its input. Each event starts one run. */
export interface EventTrigger {
  /** A topic such as `user.signup`, or a pattern: `*` is one segment, `#` is any number of segments, also none. */
  event: string;
  /** An object that the data of the event must contain; `{ $expr: "…" }` is an expression over `event` and `payload`. */
  match?: { readonly [key: string]: unknown };
}

/** Why a run exists that neither a client nor another run has started. */
export interface RunTrigger {
  readonly type: "event" | "schedule" | "webhook" | "queue";
  /** The id of the event. */
  readonly id: string;
  readonly topic: string | null;
  /** The id of the subscription that has received the event. */
  readonly subscription: string | null;
  /** The source of the event: `run:` and an id for an event that a run has published. */
  readonly source: string | null;
  /** The number of events before this one in its chain. A publish step of a run fails with `EVENT_LOOP` above 32. */
  readonly depth: number;
  /** The time for which the run was planned; null for events. */
  readonly scheduledFor: string | null;
}

export interface Context {
  readonly step: Steps;
  /** Aborted when the run is cancelled, leaves this worker, or has ended while steps still run. */
  readonly signal: AbortSignal;
  /** Silent while the function is replayed. */
  readonly log: Logger;
  /** How often a worker has started this run: the number of the turn. */
  readonly attempt: number;
  readonly run: { readonly id: string; readonly workflow: string; readonly version: number; readonly startedAt: Date };
  /** The event that has started the run, or the run that has called this one; null if a client has started it. */
  readonly trigger: RunTrigger | null;
}

export interface Steps {
  /** Runs `fn` and stores its return value. `fn` runs again if it throws, or if the worker is lost before the value is stored. */
  run<T>(name: string, fn: (step: StepContext) => T, options?: RunOptions): Promise<Jsonify<Awaited<T>>>;
  /** Sleeps, across restarts too. */
  sleep(name: string, duration: Duration): Promise<void>;
  /** Sleeps until a point in time. */
  sleepUntil(name: string, when: Date | string | number): Promise<void>;
  /** Waits for a signal or, with `event`, also for a published event, and returns its payload or data; `{}` in place of none, and null after the timeout. */
  waitForEvent<T = Json>(name: string, options?: WaitOptions & { withEvent?: false }): Promise<T | null>;
  /** Waits, and returns the data together with the event that it belongs to; null after the timeout. */
  waitForEvent<T = Json>(name: string, options: WaitOptions & { withEvent: true }): Promise<ReceivedEvent<T> | null>;
  /** Publishes an event, once, whatever crashes. Resolves when the event is in the journal; subscribers receive it after that. */
  publish(name: string, event: PublishOptions): Promise<PublishedEvent>;
  /** Starts another workflow and waits for its output. */
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
  /** Lines that are stored with the step. */
  readonly log: Logger;
  /** The same for every attempt of this step, and for no other step. */
  readonly idempotencyKey: string;
}

export interface RunOptions {
  retry?: RetryOptions;
}

export interface RetryOptions {
  /** All attempts, the first included. Default: 3. */
  attempts?: number;
  /** Default: `{ kind: "exp", base: "1s", max: "60s", jitter: 0.2 }`. */
  backoff?: { kind?: "fixed" | "linear" | "exp"; base?: Duration; max?: Duration; jitter?: number };
}

export interface WaitOptions {
  /**
   * The topic of a published event, and the name of a signal. Default: the name of the step, which only a signal
   * resolves. A signal resolves the first wait that it matches, an event resolves all waits that it matches.
   */
  event?: string;
  /** An object that the payload of the signal, or the data of the event, must contain. */
  match?: { readonly [key: string]: unknown };
  timeout?: Duration;
  /**
   * The wait also receives an event that was published before the function reached it: since the start of the run,
   * within the last minutes ("15m"), or since a point in time. The oldest event that matches resolves the wait.
   * Default: only events that are published while the wait is open. Needs `event`.
   */
  since?: "start" | Duration | Date;
}

/** What a wait with `withEvent` returns. */
export interface ReceivedEvent<T = Json> {
  /** The data of the event, or the payload of the signal. */
  readonly data: T;
  /** Null if a signal has resolved the wait. */
  readonly event: EventRef | null;
}

/** A published event without its data. */
export interface EventRef {
  readonly id: string;
  readonly topic: string;
  readonly source: string;
  /** When it was published, as RFC 3339 text. */
  readonly at: string;
}

/** An event that a step publishes. */
export interface PublishOptions {
  /** A name such as `user.signup`: up to 16 segments, separated by dots. A topic need not be created. */
  topic: string;
  data: unknown;
  /** The id of the event. A run publishes an id once; other data under the same id fail the step. Default: the name of the step. */
  id?: string;
  /** What the event is about, for people and for filters. */
  subject?: string;
}

/** An event that a step has published. */
export interface PublishedEvent {
  readonly id: string;
  readonly topic: string;
  /** False if the run has published the event under the same id before. */
  readonly created: boolean;
}

export interface CallOptions {
  /** The version of a workflow that is given by its name. */
  version?: number;
  timeout?: Duration;
}

/** Receives log lines. `console` is one, and so are most logging libraries. */
export interface Logger {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}
