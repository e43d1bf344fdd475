// The entry point for programs that start, signal and read runs. It does not import the runtime.

import "./node-version.js";

import type { DeadLetterFilter, DeadLetterPage, DeadLetters, DeadLetterStatus, DiscardOptions } from "./dead-letters.js";
import { milliseconds, moment, type Duration } from "./duration.js";
import { ApiError, RunFailedError, RunPausedError } from "./errors.js";
import type {
  EventFilter,
  EventPage,
  Events,
  Published,
  PublishEventOptions,
  ReplayOptions,
  SubscriptionChange,
  SubscriptionFilter,
  SubscriptionPage,
  Subscriptions,
  SubscriptionTarget,
} from "./events.js";
import { allPages, type Connection, CONNECTION_OPTIONS, Endpoint, HttpClient, isHeaderValue, list, query, request, type RequestOptions } from "./http.js";
import { GatheredStarts } from "./gathered-starts.js";
import { GatheredWaits, type Halt } from "./gathered-waits.js";
import { encodeJson } from "./json.js";
import type { Actions, HistoryEntry, MachineInfo, Transition, TransitionOptions } from "./machine.js";
import { checkOptions, checkPattern, checkTopic } from "./options.js";
import type { InputOf, Json, OutputOf, RunTrigger, WorkflowRef } from "./types.js";

export * from "./errors.js";
export type * from "./dead-letters.js";
export type { Duration } from "./duration.js";
export type * from "./events.js";
export type { Connection } from "./http.js";
export type {
  ActionReason,
  Actions,
  Actor,
  AvailableAction,
  ContextChange,
  HistoryEntry,
  HistoryFile,
  MachineInfo,
  Transition,
  TransitionOptions,
  Votes,
} from "./machine.js";
export type { InputOf, Json, Jsonify, OutputOf, RunTrigger, WorkflowRef } from "./types.js";

/** A workflow, or its name. */
export type Named = WorkflowRef<any, any> | string;

export interface StartOptions {
  /** Starts with the same key of a workflow return the same run: a start with a key is safe to repeat. */
  idempotencyKey?: string;
  /** Default: the version of the workflow object, or the active version if the workflow is given by its name. */
  version?: number;
  retentionDays?: number;
  /** Labels to find the run by. */
  tags?: Record<string, string>;
  /** Starts the run although no worker has ever registered the workflow: the run waits for a worker. Default: true if the workflow is given as a value, false for a name. */
  allowUnserved?: boolean;
  /** When the run begins: a Date, RFC 3339 text or epoch milliseconds, at most a year ahead. Until then its status is `pending`. */
  startAt?: Date | string | number;
  /** Seconds until the run begins, at most 365 days, in place of `startAt`. */
  delaySeconds?: number;
}

export interface Started {
  runId: string;
  /** False if a run with this key existed before. */
  created: boolean;
  /** The status of the run at the time of the response. */
  status: Status;
  /** A warning, for example that no worker serves the workflow now. */
  warning?: string;
}

export interface SignalOptions {
  /** Buffers the signal if the run has no wait for it yet. */
  buffer?: boolean;
  idempotencyKey?: string;
}

/** The outcome of a signal or a cancellation. For `ignored`, `reason` says why it had no effect. */
export interface Outcome {
  outcome: "accepted" | "repeated" | "buffered" | "ignored";
  reason?: string;
}

export type Status = "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";

export interface RunError {
  code: string;
  message: string;
  step?: string;
  attempts?: number;
  /** The stack trace of the error that the function has thrown. Lists leave it out. */
  stack?: string;
}

export interface RunSummary {
  id: string;
  workflow: string;
  workflowVersion: number;
  status: Status;
  error: RunError | null;
  parent: string | null;
  origin: string | null;
  /** The event that has started the run; null if a client has started it. */
  trigger: RunTrigger | null;
  tags: Record<string, string>;
  createdAt: string;
  endedAt: string | null;
}

export interface Run<Output = unknown> extends RunSummary {
  /** Increases with every change. */
  version: number;
  input: Json;
  /** The return value of the workflow; null until it has completed. */
  output: Output | null;
  waitingFor: string | null;
  /** The state of a run of a state machine; null for other runs. */
  machine: MachineInfo | null;
  /** Steps that the function had not awaited when it ended. */
  unawaited: string[];
  idempotencyKey: string | null;
  retentionDays: number;
}

export interface StepInfo {
  key: string;
  type: string | null;
  status: string;
  attempts: { attempt: number; status: string; endedAt: string | null; error: RunError | null; logs?: string[] }[];
  startedAt: string | null;
  endedAt: string | null;
  durationMs: number | null;
  output: Json | null;
  /** The error of the last attempt. */
  error: RunError | null;
  /** The dead letter of a side effect that failed permanently. */
  deadLetter?: { id: string; status: DeadLetterStatus };
}

export interface RunFilter {
  status?: Status | readonly Status[];
  version?: number;
  parent?: string;
  /** The runs of an event: `event:` and its id. */
  trigger?: string;
  since?: Date | string;
  until?: Date | string;
  /** Paths in the input and their values: `{ "user.id": 42 }`. Paths in the `index` of the workflow are found at once. */
  input?: Record<string, string | number | boolean>;
  tags?: Record<string, string>;
  limit?: number;
}

export interface RunPage {
  runs: RunSummary[];
  nextCursor: string | null;
  /** How many runs the server examined for the page; at most 10,000, so that a page may be short or empty. */
  scanned: number;
  /** Whether there may be more runs. */
  more: boolean;
}

/** Runs, newest first: iterate over all of them with `for await`, or read them page by page. */
export interface RunList extends AsyncIterable<RunSummary> {
  page(cursor?: string | null): Promise<RunPage>;
}

export interface RunWaitOptions {
  /** Default: none. After the timeout the call rejects with an `ApiError` of code `WAIT_TIMEOUT`. */
  timeout?: Duration;
  /** Keeps waiting while the run is paused. Default: false. */
  whilePaused?: boolean;
}

export interface WorkflowClient {
  /** Starts a run. */
  start<W extends Named>(workflow: W, input: InputOf<W>, options?: StartOptions): Promise<Started>;
  /** Sends a signal to a run. */
  signal(runId: string, event: string, payload?: unknown, options?: SignalOptions): Promise<Outcome>;
  readonly runs: {
    get<W extends Named>(workflow: W, runId: string): Promise<Run<OutputOf<W>>>;
    list(workflow: Named, filter?: RunFilter): RunList;
    /** All steps of a run, in the order in which they started. */
    steps(workflow: Named, runId: string): Promise<StepInfo[]>;
    cancel(workflow: Named, runId: string): Promise<Outcome>;
    /** Performs an action in a run of a state machine, or votes for it. A refusal is an `ApiError`; its `details` contain the present state. */
    transition(runId: string, action: string, options?: TransitionOptions): Promise<Transition>;
    /** The state of a run of a state machine, and the actions of the caller in it. */
    actions(runId: string): Promise<Actions>;
    /** The whole history of a run of a state machine, oldest first. */
    history(runId: string): Promise<HistoryEntry[]>;
    /**
     * Waits until a run has completed. Rejects with `RunFailedError` if it fails or is cancelled, and with
     * `RunPausedError` if it is paused.
     */
    wait<W extends Named>(workflow: W, runId: string, options?: RunWaitOptions): Promise<Run<OutputOf<W>> & { output: OutputOf<W> }>;
  };
  /** Publishes an event: every subscription that matches starts one run, and every wait that matches is resolved. */
  publish(topic: string, data: unknown, options?: PublishEventOptions): Promise<Published>;
  readonly events: Events;
  readonly subscriptions: Subscriptions;
  readonly deadLetters: DeadLetters;
  /** Closes the connections. Requests in progress reject. */
  close(): void;
}

/** Creates a client for the server at `url`. */
export function createWorkflowClient(connection: Connection = {}): WorkflowClient {
  checkOptions(connection, CONNECTION_OPTIONS, "a client");
  const endpoint = new Endpoint(connection);
  const http = new HttpClient(endpoint, CONNECTIONS_MAX);
  // A wait occupies its connection for long, so waits do not use the connections that other calls share.
  const waits = new HttpClient(endpoint, Number.POSITIVE_INFINITY);
  const starts = new GatheredStarts(http);
  const gathered = new GatheredWaits(waits);
  let waitsInProgress = 0;
  const ask = <T>(method: string, path: string, options?: RequestOptions) => request<T>(http, method, path, options);
  /** Publishes an event, and waits for its fan-out if that is wanted. */
  const post = (path: string, waitSeconds: number | undefined, options: RequestOptions): Promise<Published> =>
    request(waitSeconds === undefined ? http : waits, "POST", `${path}${query({ waitSeconds }, null)}`, options);

  return {
    async start(workflow, input, options = {}) {
      checkOptions(options, START_OPTIONS, "a start");
      const { idempotencyKey, retentionDays, tags, delaySeconds } = options;
      if (options.startAt !== undefined && delaySeconds !== undefined) throw new TypeError("a start has either startAt or delaySeconds");
      const startAt = options.startAt === undefined ? undefined : new Date(moment(options.startAt, "startAt")).toISOString();
      // A workflow that the program has as a value cannot be a misspelt name: its worker may connect after the start.
      const isValue = typeof workflow !== "string";
      const version = options.version ?? (isValue ? workflow.version : undefined);
      const allowUnserved = options.allowUnserved ?? (isValue ? true : undefined);
      const body = encodeJson({ input: input === undefined ? null : input, version, idempotencyKey, retentionDays, tags, allowUnserved, startAt, delaySeconds });
      const started = await starts.start(path(workflow), version, body ?? "{}", idempotencyKey !== undefined);
      const found: Started = { runId: started.run.id, created: started.created, status: started.run.status as Status };
      if (typeof started.warning === "string") found.warning = started.warning;
      return found;
    },
    async signal(runId, event, payload, options = {}) {
      checkOptions(options, SIGNAL_OPTIONS, "a signal");
      const query = options.buffer === true ? "?buffer=true" : "";
      const request: RequestOptions = { isRepeatable: options.idempotencyKey !== undefined };
      if (payload !== undefined) request.body = encodeJson(payload);
      if (options.idempotencyKey !== undefined) request.headers = { "idempotency-key": headerValue(options.idempotencyKey) };
      return ask("POST", `/v1/runs/${encodeURIComponent(runId)}/signals/${encodeURIComponent(event)}${query}`, request);
    },
    runs: {
      get: (workflow, runId) => ask("GET", runPath(workflow, runId)),
      list: (workflow, filter = {}) =>
        list(
          (cursor): Promise<RunPage> => ask("GET", `${path(workflow)}/runs${query(filter, cursor)}`),
          (page) => page.runs,
        ),
      steps: (workflow, runId) =>
        allPages(async (query) => {
          const page = await ask<{ steps: StepInfo[]; nextCursor: string | null }>("GET", `${runPath(workflow, runId)}/steps${query}`);
          return [page.steps, page.nextCursor];
        }),
      cancel: (workflow, runId) => ask("DELETE", runPath(workflow, runId), { isRepeatable: true }),
      async transition(runId, action, options = {}) {
        checkOptions(options, TRANSITION_OPTIONS, "a transition");
        const { idempotencyKey, ...fields } = options;
        const request: RequestOptions = { body: encodeJson({ action, ...fields }), isRepeatable: idempotencyKey !== undefined };
        if (idempotencyKey !== undefined) request.headers = { "idempotency-key": headerValue(idempotencyKey) };
        return ask("POST", `/v1/runs/${encodeURIComponent(runId)}/transitions`, request);
      },
      actions: (runId) => ask("GET", `/v1/runs/${encodeURIComponent(runId)}/actions`),
      history: (runId) =>
        allPages(async (query) => {
          const page = await ask<{ entries: HistoryEntry[]; nextCursor: string | null }>("GET", `/v1/runs/${encodeURIComponent(runId)}/history${query}`);
          return [page.entries, page.nextCursor];
        }),
      async wait(workflow, runId, options = {}) {
        checkOptions(options, WAIT_OPTIONS, "a wait");
        const until = options.timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + milliseconds(options.timeout, "timeout");
        for (;;) {
          const askedAt = performance.now();
          type Found = Run<OutputOf<typeof workflow>>;
          // Several waits share a request. The response to the last request of a timeout names the status of the run.
          const isShared = waitsInProgress > 0 && Date.now() < until;
          waitsInProgress += 1;
          let run: Found;
          try {
            const halt: Halt<Found> = isShared ? await gathered.wait<Found>(runId, until - Date.now()) : "alone";
            if (http.isClosed) throw new ApiError(0, "NO_ANSWER", "the client was closed");
            if (halt === "again") continue;
            if (typeof halt === "object" && halt.run.workflow === nameOf(workflow)) {
              run = halt.run;
            } else {
              const seconds = Math.min(WAIT_MAX_S, Math.ceil(Math.max(0, until - Date.now()) / 1_000));
              run = await request<Found>(seconds === 0 ? http : waits, "GET", `${runPath(workflow, runId)}?waitSeconds=${seconds}`, { until });
            }
          } finally {
            waitsInProgress -= 1;
          }
          if (run.status === "completed") return run as typeof run & { output: OutputOf<typeof workflow> };
          if (run.status === "failed" || run.status === "cancelled") {
            throw new RunFailedError(runId, run.status, run.error ?? { code: run.status.toUpperCase(), message: `the run was ${run.status}` });
          }
          if (run.status === "paused" && options.whilePaused !== true) throw new RunPausedError(run);
          if (Date.now() >= until) {
            throw new ApiError(0, "WAIT_TIMEOUT", `run ${runId} is still ${run.status}${run.waitingFor === null ? "" : `: it ${run.waitingFor}`}`);
          }
          // The server need not hold a request for a paused run.
          const pause = run.status === "paused" ? PAUSED_POLL_MS - (performance.now() - askedAt) : 0;
          if (pause > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(pause, until - Date.now())));
        }
      },
    },
    async publish(topic, data, options = {}) {
      checkOptions(options, PUBLISH_OPTIONS, "a publish");
      checkTopic(topic, "the topic");
      const { id, source, subject, waitSeconds } = options;
      const body = encodeJson({ topic, data: data === undefined ? null : data, id, source, subject });
      return post("/v1/events", waitSeconds, { body, isRepeatable: id !== undefined });
    },
    events: {
      get: (eventId, cursor) => ask("GET", `/v1/events/${encodeURIComponent(eventId)}${query({}, cursor)}`),
      list(filter = {}) {
        checkOptions<EventFilter>(filter, EVENT_FILTER, "a list of events");
        return list(
          (cursor): Promise<EventPage> => ask("GET", `/v1/events${query(filter, cursor)}`),
          (page) => page.events,
        );
      },
      async replay(eventId, subscriptionId, options = {}) {
        checkOptions<ReplayOptions>(options, REPLAY_OPTIONS, "a replay");
        const { idempotencyKey, waitSeconds } = options;
        const request: RequestOptions = { body: encodeJson({ subscription: subscriptionId }), isRepeatable: idempotencyKey !== undefined };
        if (idempotencyKey !== undefined) request.headers = { "idempotency-key": headerValue(idempotencyKey) };
        return post(`/v1/events/${encodeURIComponent(eventId)}/replay`, waitSeconds, request);
      },
    },
    subscriptions: {
      async create(pattern, target) {
        checkOptions<SubscriptionTarget>(target, SUBSCRIPTION_TARGET, "a subscription");
        checkPattern(pattern, "the pattern");
        return ask("POST", `/v1/topics/${encodeURIComponent(pattern)}/subscriptions`, { body: encodeJson(target) });
      },
      get: (id) => ask("GET", subscriptionPath(id)),
      list(filter = {}) {
        checkOptions<SubscriptionFilter>(filter, SUBSCRIPTION_FILTER, "a list of subscriptions");
        const { pattern, ...rest } = filter;
        const base = pattern === undefined ? "/v1/subscriptions" : `/v1/topics/${encodeURIComponent(pattern)}/subscriptions`;
        return list(
          (cursor): Promise<SubscriptionPage> => ask("GET", `${base}${query(rest, cursor)}`),
          (page) => page.subscriptions,
        );
      },
      async update(id, change) {
        checkOptions<SubscriptionChange>(change, SUBSCRIPTION_CHANGE, "a change of a subscription");
        return ask("PATCH", subscriptionPath(id), { body: encodeJson(change), isRepeatable: true });
      },
      pause: (id) => ask("POST", `${subscriptionPath(id)}/pause`, { isRepeatable: true }),
      resume: (id) => ask("POST", `${subscriptionPath(id)}/resume`, { isRepeatable: true }),
      delete: (id) => ask("DELETE", subscriptionPath(id)),
    },
    deadLetters: {
      list(filter = {}) {
        checkOptions<DeadLetterFilter>(filter, DEAD_LETTER_FILTER, "a list of dead letters");
        return list(
          (cursor): Promise<DeadLetterPage> => ask("GET", `/v1/dead-letters${query(filter, cursor)}`),
          (page) => page.deadLetters,
        );
      },
      get: (id) => ask("GET", deadLetterPath(id)),
      requeue: (id) => ask("POST", `${deadLetterPath(id)}/requeue`),
      async discard(id, options = {}) {
        checkOptions<DiscardOptions>(options, DISCARD_OPTIONS, "a discard");
        return ask("POST", `${deadLetterPath(id)}/discard`, { body: encodeJson(options), isRepeatable: true });
      },
    },
    close() {
      http.close();
      waits.close();
      gathered.close();
    },
  };
}

function nameOf(workflow: Named): string {
  return typeof workflow === "string" ? workflow : workflow.name;
}

function path(workflow: Named): string {
  return `/v1/workflows/${encodeURIComponent(nameOf(workflow))}`;
}

function runPath(workflow: Named, runId: string): string {
  return `${path(workflow)}/runs/${encodeURIComponent(runId)}`;
}

function subscriptionPath(id: string): string {
  return `/v1/subscriptions/${encodeURIComponent(id)}`;
}

function deadLetterPath(id: string): string {
  return `/v1/dead-letters/${encodeURIComponent(id)}`;
}

/** Connections that calls share, besides those of waits. */
const CONNECTIONS_MAX = 64;
/** Seconds that the server holds a request for the end of a run. */
const WAIT_MAX_S = 30;
/** Milliseconds between two requests of a wait for a run that is paused. */
const PAUSED_POLL_MS = 1_000;
const START_OPTIONS = { idempotencyKey: true, version: true, retentionDays: true, tags: true, allowUnserved: true, startAt: true, delaySeconds: true } as const;
const SIGNAL_OPTIONS = { buffer: true, idempotencyKey: true } as const;
const TRANSITION_OPTIONS = { version: true, comment: true, data: true, shown: true, withdraw: true, files: true, idempotencyKey: true } as const;
const WAIT_OPTIONS = { timeout: true, whilePaused: true } as const;
const PUBLISH_OPTIONS = { id: true, source: true, subject: true, waitSeconds: true } as const;
const REPLAY_OPTIONS = { idempotencyKey: true, waitSeconds: true } as const;
const EVENT_FILTER = { topic: true, since: true, until: true, limit: true } as const;
const DEAD_LETTER_FILTER = { status: true, source: true, kind: true, workflow: true, run: true, error: true, since: true, until: true, limit: true } as const;
const DISCARD_OPTIONS = { reason: true } as const;
const SUBSCRIPTION_FILTER = { pattern: true, limit: true } as const;
const SUBSCRIPTION_TARGET = { type: true, name: true, version: true, filter: true, input: true, key: true, retentionDays: true } as const;
const SUBSCRIPTION_CHANGE = { pattern: true, name: true, version: true, filter: true, input: true, key: true, retentionDays: true } as const;

/** Text as the bytes of a header value. */
function headerValue(text: string): string {
  const bytes = Buffer.from(text).toString("latin1");
  if (!isHeaderValue(bytes)) throw new TypeError(`the idempotency key is ${JSON.stringify(text)}: it must not contain control characters`);
  return bytes;
}
