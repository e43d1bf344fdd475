// The entry for those who start, signal and watch runs. It brings nothing of the runtime along.

import { milliseconds, type Duration } from "./duration.js";
import { ApiError, RunFailedError } from "./errors.js";
import { Address, type Answer, type Connection, CONNECTION, Http, isHeader, problemOf } from "./http.js";
import { checkOptions } from "./options.js";
import { jsonOf } from "./policy.js";
import type { InputOf, Json, OutputOf, WorkflowRef } from "./types.js";

export * from "./errors.js";
export type { Duration } from "./duration.js";
export type { Connection } from "./http.js";
export type { InputOf, Json, Jsonify, OutputOf, WorkflowRef } from "./types.js";

/** A workflow, or its name. */
export type Named = WorkflowRef<any, any> | string;

export interface StartOptions {
  /** There is one run per key of a workflow, however often it is started. With a key, a start is safe to repeat. */
  idempotencyKey?: string;
  /** The version; that of the workflow which is given, else the newest that the server knows. */
  version?: number;
  retentionDays?: number;
  /** Words to find the run by. */
  tags?: Record<string, string>;
}

export interface Started {
  runId: string;
  /** False when there was a run with that key before. */
  created: boolean;
  /** Of the run, when it was asked for. */
  status: Status;
  /** What the caller should know: that nobody serves the workflow now, say. */
  warning?: string;
}

export interface SignalOptions {
  /** Keeps the signal for the run if nothing waits for it yet. */
  buffer?: boolean;
  idempotencyKey?: string;
}

/** What became of a signal or a cancellation: `ignored` says in `reason` why it changed nothing. */
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
  /** Counts up with every change. */
  version: number;
  input: Json;
  /** What the workflow returned; null until it has completed. */
  output: Output | null;
  waitingFor: string | null;
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
  /** Why it failed at last. */
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

/** Runs, newest first: all of them by `for await`, or a page at a time. */
export interface RunList extends AsyncIterable<RunSummary> {
  page(cursor?: string | null): Promise<RunPage>;
}

export interface WorkflowClient {
  /** Starts a run. */
  start<W extends Named>(workflow: W, input: InputOf<W>, options?: StartOptions): Promise<Started>;
  /** Gives a run a signal. */
  signal(runId: string, event: string, payload?: unknown, options?: SignalOptions): Promise<Outcome>;
  readonly runs: {
    get<W extends Named>(workflow: W, runId: string): Promise<Run<OutputOf<W>>>;
    list(workflow: Named, filter?: RunFilter): RunList;
    /** All steps of a run, in the order in which they began. */
    steps(workflow: Named, runId: string): Promise<StepInfo[]>;
    cancel(workflow: Named, runId: string): Promise<Outcome>;
    /** Waits until a run has completed; rejects with `RunFailedError` if it does not. */
    wait<W extends Named>(workflow: W, runId: string, options?: { timeout?: Duration }): Promise<Run<OutputOf<W>> & { output: OutputOf<W> }>;
  };
  /** Closes its connections. What is under way still rejects. */
  close(): void;
}

/** A client for the server at `url`. */
export function createWorkflowClient(connection: Connection = {}): WorkflowClient {
  checkOptions(connection, CONNECTION, "a client");
  const address = new Address(connection);
  const http = new Http(address, 64);
  // A wait holds its connection for long: it takes none of those that other calls share.
  const waits = new Http(address, Number.POSITIVE_INFINITY);
  const ask = <T>(method: string, path: string, options?: Asking) => request<T>(http, method, path, options);

  return {
    async start(workflow, input, options = {}) {
      checkOptions(options, START, "a start");
      const { idempotencyKey, retentionDays, tags } = options;
      const version = options.version ?? (typeof workflow === "string" ? undefined : workflow.version);
      const body = jsonOf({ input: input === undefined ? null : input, version, idempotencyKey, retentionDays, tags });
      const started = await ask<{ run: Run; created: boolean; warning?: string }>("POST", `${path(workflow)}/runs`, {
        body,
        isRepeatable: idempotencyKey !== undefined,
      });
      const found: Started = { runId: started.run.id, created: started.created, status: started.run.status };
      if (typeof started.warning === "string") found.warning = started.warning;
      return found;
    },
    async signal(runId, event, payload, options = {}) {
      checkOptions(options, SIGNAL, "a signal");
      const query = options.buffer === true ? "?buffer=true" : "";
      const asking: Asking = { isRepeatable: options.idempotencyKey !== undefined };
      if (payload !== undefined) asking.body = jsonOf(payload);
      if (options.idempotencyKey !== undefined) asking.headers = { "idempotency-key": headerOf(options.idempotencyKey) };
      return ask("POST", `/v1/runs/${encodeURIComponent(runId)}/signals/${encodeURIComponent(event)}${query}`, asking);
    },
    runs: {
      get: (workflow, runId) => ask("GET", runPath(workflow, runId)),
      list: (workflow, filter = {}) => list((cursor) => ask("GET", `${path(workflow)}/runs${query(filter, cursor)}`)),
      async steps(workflow, runId) {
        const steps: StepInfo[] = [];
        let cursor: string | null = null;
        do {
          const more: string = cursor === null ? "" : `?cursor=${encodeURIComponent(cursor)}`;
          const page: { steps: StepInfo[]; nextCursor: string | null } = await ask("GET", `${runPath(workflow, runId)}/steps${more}`);
          steps.push(...page.steps);
          cursor = page.nextCursor;
        } while (cursor !== null);
        return steps;
      },
      cancel: (workflow, runId) => ask("DELETE", runPath(workflow, runId), { isRepeatable: true }),
      async wait(workflow, runId, options = {}) {
        checkOptions(options, WAIT, "a wait");
        const until = options.timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + milliseconds(options.timeout, "timeout");
        for (;;) {
          const left = Math.max(0, until - Date.now());
          const seconds = Math.min(30, Math.ceil(left / 1_000));
          const path = `${runPath(workflow, runId)}?waitSeconds=${seconds}`;
          const run = await request<Run<OutputOf<typeof workflow>>>(waits, "GET", path, { until });
          if (run.status === "completed") return run as typeof run & { output: OutputOf<typeof workflow> };
          if (run.status === "failed" || run.status === "cancelled") {
            throw new RunFailedError(runId, run.status, run.error ?? { code: run.status.toUpperCase(), message: `the run was ${run.status}` });
          }
          if (Date.now() >= until) {
            throw new ApiError(0, "WAIT_TIMEOUT", `run ${runId} is ${run.status} still${run.waitingFor === null ? "" : `: it ${run.waitingFor}`}`);
          }
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

interface Asking {
  body?: string | undefined;
  headers?: Record<string, string>;
  /** Whether the same request may be sent again when nobody knows what became of it. */
  isRepeatable?: boolean;
  /** Until when an answer is waited for, and a server that is away is asked again; six times if it is not given. */
  until?: number;
}

const TRIES = 6;
/** Milliseconds that a server may ask for between two tries. */
const LONGEST_PAUSE = 60_000;
const START = { idempotencyKey: true, version: true, retentionDays: true, tags: true } as const;
const SIGNAL = { buffer: true, idempotencyKey: true } as const;
const WAIT = { timeout: true } as const;

async function request<T>(http: Http, method: string, path: string, asking: Asking = {}): Promise<T> {
  const isRepeatable = method === "GET" || asking.isRepeatable === true;
  const { until, headers } = asking;
  for (let tries = 1; ; tries++) {
    let error: ApiError;
    let least = 0;
    try {
      // A server that holds the request until the time is over answers then.
      const timeoutMs = until === undefined ? 45_000 : Math.min(60_000, Math.max(0, until - Date.now()) + 5_000);
      const answer = await http.send(method, path, asking.body, { timeoutMs, ...(headers === undefined ? {} : { headers }) });
      if (answer.status >= 200 && answer.status < 300) return parse<T>(answer);
      error = problemOf(answer.status, answer.text);
      least = Math.min(LONGEST_PAUSE, 1_000 * (Number(answer.headers["retry-after"]) || 0));
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      error = caught;
    }
    if (http.isClosed || !mayHelp(error, isRepeatable)) throw error;
    const left = until === undefined ? TRIES - tries : until - Date.now();
    if (left <= 0) throw until === undefined ? error : new ApiError(0, "WAIT_TIMEOUT", `the time is over: ${error.detail}`, undefined, { cause: error });
    const pause = least + Math.min(2_000, 50 * 2 ** tries) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, until === undefined ? pause : Math.min(pause, left)));
    if (http.isClosed) throw error;
  }
}

/** Codes of servers that answer, and that TLS does not trust. */
const UNTRUSTED = /CERT|TLS|SSL|VERIFY|EPROTO/;

/** Whether another try may help, and can do no harm. */
function mayHelp(error: ApiError, isRepeatable: boolean): boolean {
  // Both are said before anything is done.
  if (error.code === "UNAVAILABLE" || error.code === "RATE_LIMITED") return true;
  if (error.status === 0) {
    const { code = "" } = (error.cause ?? {}) as { code?: string };
    return code === "ECONNREFUSED" || (isRepeatable && !UNTRUSTED.test(code));
  }
  return isRepeatable && (error.status === 429 || (error.status >= 502 && error.status <= 504));
}

/** Text as the bytes of a header. */
function headerOf(text: string): string {
  const bytes = Buffer.from(text).toString("latin1");
  if (!isHeader(bytes)) throw new TypeError(`the idempotency key is ${JSON.stringify(text)}: it cannot have line breaks and the like`);
  return bytes;
}

function parse<T>(answer: Answer): T {
  try {
    return JSON.parse(answer.text) as T;
  } catch {
    throw new ApiError(answer.status, "UNEXPECTED_ANSWER", "the answer is not JSON");
  }
}
