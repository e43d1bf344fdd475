// Wire types of routes that a server with the console's own routes has: a server that lists `features` in `GET /v1/me`.

import type { RunStatus, StepStatus } from "../lib/status";
import type { Empty, Error as Failure, Me, Step } from "./types";

export interface FailureHead {
  code: string;
  message: string;
}

export type Activity =
  | { does: "task" | "instant" | "sleep" }
  | { does: "wait"; event: string }
  | { does: "child"; run: string; workflow: string }
  | { does: "body"; items: number };

export interface RunUpdate {
  of: "run";
  seq: number;
  at: string;
  change:
    | "started"
    | "turnStarted"
    | "turnLost"
    | "paused"
    | "resumed"
    | "retried"
    | "moved"
    | "voted"
    | "assigned"
    | "completed"
    | "failed"
    | "cancelled";
  failure?: FailureHead;
  failedStep?: string;
  unawaited?: string[];
  reason?: string;
  worker?: string;
}

export interface StepUpdate {
  of: "step";
  seq: number;
  at: string;
  step: string;
  node: string;
  type?: string;
  attempt: number;
  status: StepStatus;
  change:
    | "began"
    | "completed"
    | "failed"
    | "skipped"
    | "retries"
    | "retryDue"
    | "paces"
    | "paceDue"
    | "cancelled"
    | "reopened";
  activity?: Activity;
  since?: string;
  due?: string;
  handle?: string;
  error?: FailureHead;
}

export type Update = RunUpdate | StepUpdate;

/** An entry of a journal without its values. */
export interface Head {
  seq: number;
  at: string;
  event: string;
  step?: string | null;
  attempt?: number | null;
  handle?: string | null;
  dispatch?: string | null;
  due?: string | null;
  child?: string | null;
  signal?: string | null;
  error?: FailureHead | null;
  turn?: number | null;
  reason?: string | null;
  /** When the work of an ended attempt began; it was queued before. */
  startedAt?: string | null;
  /** The size of the values that were left out. */
  bytes?: number;
  logLines?: number;
  updates: Update[];
}

export interface Heads {
  entries: Head[];
  nextAfter: number | null;
}

/** A value that is too large to be sent with others. */
export interface CutValue {
  $cut: number;
}

/** One step with its values. */
export interface StepDetail extends Step {
  config: unknown;
  input: unknown;
  dispatchSeq: number | null;
  endSeq: number | null;
  queuedMs: number | null;
  tookMs: number | null;
  logs: string[] | CutValue;
}

export interface StatsBucket {
  at: string;
  started: number;
  completed: number;
  failed: number;
  cancelled: number;
  p50Ms: number | null;
  p95Ms: number | null;
}

export interface Stats {
  buckets: StatsBucket[];
}

export interface InboxItem {
  kind: string;
  run: string;
  workflow: string;
  step: string;
  signal: string;
  match: unknown;
  title: string | null;
  since: string | null;
  due: string | null;
  about: unknown;
}

export interface Inbox {
  inbox: InboxItem[];
  nextCursor: string | null;
}

export interface SignIn {
  key: string;
  expiresAt: string;
  name: string;
}

export interface ServerInfo {
  version: string;
  store: string;
  nodes: number;
}

export type MeWithFeatures = Me & { features?: string[]; server?: ServerInfo };

export interface FeedRun {
  id: string;
  workflow: string;
  status: RunStatus;
  createdAt: string;
  endedAt: string | null;
}

/** Messages of the socket to this page. */
export type SocketMessage =
  | { run: string; event: "snapshot" | "entry" | "status" | "end"; seq?: number; data: unknown }
  | { workspace: "counts"; data: Partial<Record<RunStatus, number>> & { silent?: string[] } }
  | { workspace: "runs"; data: FeedRun[] }
  | { workspace: "many"; data?: unknown }
  | { error: { code: string; detail: string }; run?: string };

export interface AddedRoutes {
  "GET /v1/me": { answer: MeWithFeatures };
  "GET /v1/runs/{id}/steps/{key}": { query: { attempt?: number; part?: string }; answer: StepDetail };
  "GET /v1/stats": { query: { since: string; until: string; every: string; workflow?: string }; answer: Stats };
  "GET /v1/inbox": { query: { cursor?: string; limit?: number; workflow?: string }; answer: Inbox };
  "DELETE /v1/sign-ins/current": { answer: undefined };
  "POST /v1/sign-ins": { body: { code: string }; answer: SignIn };
}

export type { Empty, Failure };
