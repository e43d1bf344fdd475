// Wire types that the generated ones lack: the tag of an update of a head, and the messages of the socket, which the
// OpenAPI document does not describe.

import type { RunStatus, StepStatus } from "../lib/status";
import type { FailureHead } from "./types";

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
