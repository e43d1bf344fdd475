// The entry point for programs that start, signal and read runs. It does not import the runtime.

import "./node-version.js";

import { milliseconds, type Duration } from "./duration.js";
import { ApiError, RunFailedError, RunPausedError } from "./errors.js";
import { type Connection, CONNECTION_OPTIONS, Endpoint, HttpClient, type HttpResponse, isHeaderValue, problemFromBody } from "./http.js";
import { encodeJson } from "./json.js";
import type { Actions, HistoryEntry, MachineInfo, Transition, TransitionOptions } from "./machine.js";
import { checkOptions } from "./options.js";
import type { InputOf, Json, OutputOf, WorkflowRef } from "./types.js";

export * from "./errors.js";
export type { Duration } from "./duration.js";
export type { Connection } from "./http.js";
export type {
  ActionReason,
  Actions,
  Actor,
  AvailableAction,
  ContextChange,
  HistoryEntry,
  MachineInfo,
  Transition,
  TransitionOptions,
  Votes,
} from "./machine.js";
export type { InputOf, Json, Jsonify, OutputOf, WorkflowRef } from "./types.js";

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
}

export interface RunFilter {
  status?: Status | readonly Status[];
  version?: number;
  parent?: string;
  since?: Date | string;
  until?: Date | string;
  /** Paths in the input and their values: `{ "user.id": 42 }`. */
  input?: Record<string, string | number | boolean>;
  tags?: Record<string, string>;
  limit?: number;
}

export interface RunPage {
  runs: RunSummary[];
  nextCursor: string | null;
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
  const ask = <T>(method: string, path: string, options?: RequestOptions) => request<T>(http, method, path, options);

  return {
    async start(workflow, input, options = {}) {
      checkOptions(options, START_OPTIONS, "a start");
      const { idempotencyKey, retentionDays, tags } = options;
      // A workflow that the program has as a value cannot be a misspelt name: its worker may connect after the start.
      const isValue = typeof workflow !== "string";
      const version = options.version ?? (isValue ? workflow.version : undefined);
      const allowUnserved = options.allowUnserved ?? (isValue ? true : undefined);
      const body = encodeJson({ input: input === undefined ? null : input, version, idempotencyKey, retentionDays, tags, allowUnserved });
      const started = await ask<{ run: Run; created: boolean; warning?: string }>("POST", `${path(workflow)}/runs`, {
        body,
        isRepeatable: idempotencyKey !== undefined,
      });
      const found: Started = { runId: started.run.id, created: started.created, status: started.run.status };
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
      list: (workflow, filter = {}) => list((cursor) => ask("GET", `${path(workflow)}/runs${query(filter, cursor)}`)),
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
          const left = Math.max(0, until - Date.now());
          const seconds = Math.min(WAIT_MAX_S, Math.ceil(left / 1_000));
          const path = `${runPath(workflow, runId)}?waitSeconds=${seconds}`;
          const askedAt = performance.now();
          const run = await request<Run<OutputOf<typeof workflow>>>(waits, "GET", path, { until });
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
    close() {
      http.close();
      waits.close();
    },
  };
}

function path(workflow: Named): string {
  return `/v1/workflows/${encodeURIComponent(typeof workflow === "string" ? workflow : workflow.name)}`;
}

function runPath(workflow: Named, runId: string): string {
  return `${path(workflow)}/runs/${encodeURIComponent(runId)}`;
}

function query(filter: RunFilter, cursor: string | null | undefined): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    if (name === "input" || name === "tags") {
      const prefix = name === "input" ? "input" : "tag";
      for (const [path, wanted] of Object.entries(value as Record<string, unknown>)) words.append(`${prefix}.${path}`, String(wanted));
    } else if (value instanceof Date) {
      words.append(name, value.toISOString());
    } else {
      words.append(name, String(value));
    }
  }
  if (cursor !== null && cursor !== undefined) words.append("cursor", cursor);
  return words.size === 0 ? "" : `?${words}`;
}

function list(page: (cursor: string | null | undefined) => Promise<RunPage>): RunList {
  return {
    page,
    async *[Symbol.asyncIterator]() {
      let cursor: string | null = null;
      do {
        const { runs, nextCursor }: RunPage = await page(cursor);
        yield* runs;
        cursor = nextCursor;
      } while (cursor !== null);
    },
  };
}

/** The rows of all pages. `page` reads the page of a query string: its rows, and the cursor of the next page. */
async function allPages<Row>(page: (query: string) => Promise<[Row[], string | null]>): Promise<Row[]> {
  const all: Row[] = [];
  let cursor: string | null = null;
  do {
    const [rows, next]: [Row[], string | null] = await page(cursor === null ? "" : `?cursor=${encodeURIComponent(cursor)}`);
    all.push(...rows);
    cursor = next;
  } while (cursor !== null);
  return all;
}

interface RequestOptions {
  body?: string | undefined;
  headers?: Record<string, string>;
  /** Whether the request may be sent again when its outcome is unknown. */
  isRepeatable?: boolean;
  /** The time until which the request is repeated while the server cannot be reached. Default: six tries. */
  until?: number;
}

/** Connections that calls share, besides those of waits. */
const CONNECTIONS_MAX = 64;
/** Seconds that the server holds a request for the end of a run. */
const WAIT_MAX_S = 30;
/** Milliseconds between two requests of a wait for a run that is paused. */
const PAUSED_POLL_MS = 1_000;
const TRIES_MAX = 6;
const RESPONSE_TIMEOUT_MS = 45_000;
/** The longest `retry-after` of a server that is respected. */
const RETRY_AFTER_MAX_MS = 60_000;
const BACKOFF_MAX_MS = 2_000;
const START_OPTIONS = { idempotencyKey: true, version: true, retentionDays: true, tags: true, allowUnserved: true } as const;
const SIGNAL_OPTIONS = { buffer: true, idempotencyKey: true } as const;
const TRANSITION_OPTIONS = { version: true, comment: true, data: true, shown: true, withdraw: true, idempotencyKey: true } as const;
const WAIT_OPTIONS = { timeout: true, whilePaused: true } as const;

async function request<T>(http: HttpClient, method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const isRepeatable = method === "GET" || options.isRepeatable === true;
  const { until, headers } = options;
  for (let tries = 1; ; tries++) {
    let error: ApiError;
    let retryAfterMs = 0;
    try {
      // The server may hold the request until the end of the wait and respond then.
      const timeoutMs = until === undefined ? RESPONSE_TIMEOUT_MS : Math.min(60_000, Math.max(0, until - Date.now()) + 5_000);
      const response = await http.send(method, path, options.body, { timeoutMs, ...(headers === undefined ? {} : { headers }) });
      if (response.status >= 200 && response.status < 300) return parse<T>(response);
      error = problemFromBody(response.status, response.text);
      retryAfterMs = Math.min(RETRY_AFTER_MAX_MS, 1_000 * (Number(response.headers["retry-after"]) || 0));
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      error = caught;
    }
    if (http.isClosed || !mayRetry(error, isRepeatable)) throw error;
    const left = until === undefined ? TRIES_MAX - tries : until - Date.now();
    if (left <= 0) throw until === undefined ? error : new ApiError(0, "WAIT_TIMEOUT", `the timeout has expired: ${error.detail}`, error.hint, { cause: error });
    const pause = retryAfterMs + Math.min(BACKOFF_MAX_MS, 50 * 2 ** tries) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, until === undefined ? pause : Math.min(pause, left)));
    if (http.isClosed) throw error;
  }
}

/** Error codes of a server whose certificate is not trusted. */
const UNTRUSTED = /CERT|TLS|SSL|VERIFY|EPROTO/;

/** Whether another try may succeed and is safe. */
function mayRetry(error: ApiError, isRepeatable: boolean): boolean {
  // The server answers with these codes before it changes anything.
  if (error.code === "UNAVAILABLE" || error.code === "RATE_LIMITED") return true;
  if (error.status === 0) {
    const { code = "" } = (error.cause ?? {}) as { code?: string };
    return code === "ECONNREFUSED" || (isRepeatable && !UNTRUSTED.test(code));
  }
  return isRepeatable && (error.status === 429 || (error.status >= 502 && error.status <= 504));
}

/** Text as the bytes of a header value. */
function headerValue(text: string): string {
  const bytes = Buffer.from(text).toString("latin1");
  if (!isHeaderValue(bytes)) throw new TypeError(`the idempotency key is ${JSON.stringify(text)}: it must not contain control characters`);
  return bytes;
}

function parse<T>(response: HttpResponse): T {
  try {
    return JSON.parse(response.text) as T;
  } catch {
    throw new ApiError(response.status, "UNEXPECTED_ANSWER", "the response is not JSON");
  }
}
