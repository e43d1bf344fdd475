// Types of the worker protocol, version 1. docs/reference/worker-protocol.md explains them.

import type { EventRef, EventTrigger, RunTrigger } from "./types.js";

/** A run and the number of one of its turns. */
export interface TurnRef {
  run: string;
  turn: number;
}

export interface Hello {
  protocol: 1;
  worker: string;
  sdk: string;
  capacity: number;
  workflows: {
    name: string;
    version: number;
    retentionDays?: number;
    inputSchema?: Readonly<Record<string, unknown>>;
    triggers?: readonly EventTrigger[];
    index?: readonly string[];
  }[];
  holds: TurnRef[];
}

export interface Welcome {
  session: string;
  leaseSeconds: number;
  maxMessageBytes: number;
  maxReports: number;
  /** The extensions of the first protocol version that the server accepts, such as `unawaited` and `topics`. */
  features?: string[];
}

/** A message of the server to a worker. `m` counts from 1; a worker processes messages in that order. */
export interface NumberedMessage {
  m: number;
  acks?: [n: number, seq: number][];
  refused?: { n: number; code: string; detail: string }[];
  later?: number[];
  turns?: Turn[];
  wakes?: Wake[];
  cancels?: LostTurn[];
  revoked?: LostTurn[];
}

/** A turn that the worker loses, with the reason as a word for programs and as a text for people. */
export interface LostTurn extends TurnRef {
  /** `parked`, `paused` or `moved` of a turn that is revoked; `cancelled`, `failed` or `ended` of a run that has ended. */
  reason?: string;
  detail?: string;
}

export interface Turn extends TurnRef {
  workflow: string;
  version: number;
  input?: unknown;
  startedAt: string;
  /** Of a run that an event has started. */
  trigger?: RunTrigger;
  seq: number;
  steps?: StepRecord[];
}

export type StepKind = "run" | "sleep" | "wait" | "call" | "publish";

/** The state of a step according to the journal. */
export interface StepRecord {
  step: string;
  kind: StepKind;
  seq: number;
  status: "completed" | "failed" | "slept" | "resolved" | "timedOut" | "retry" | "open";
  output?: unknown;
  error?: { code: string; message: string; attempts?: number };
  payload?: unknown;
  /** Of a wait that a published event has resolved; `payload` is its data. */
  event?: EventRef;
  attempt?: number;
}

export type Wake = StepRecord & TurnRef;

export interface ReportedError {
  code?: string;
  message: string;
  stack?: string;
  retryable?: boolean;
}

export interface RetryPolicy {
  attempts: number;
  backoff: { kind: "fixed" | "linear" | "exp"; baseMs: number; maxMs: number; jitter: number };
}

/** From when on a wait looks for events: the start of the run, milliseconds before the wait is opened, or milliseconds since 1970. */
export type Since = "start" | { agoMs: number } | { atMs: number };

/** A report of a function about its run. `json`, `match`, `input` and `data` are JSON text, so that no value is encoded twice. */
export type Report =
  | { kind: "completed"; step: string; attempt: number; json: string; logs: string[] | undefined; tookMs: number }
  | { kind: "failed"; step: string; attempt: number; error: ReportedError; retry: RetryPolicy; logs: string[] | undefined; tookMs: number }
  | { kind: "sleep"; step: string; forMs?: number; untilMs?: number }
  | { kind: "wait"; step: string; event?: string; match?: string; timeoutMs?: number; since?: Since }
  | { kind: "call"; step: string; workflow: string; version?: number; input: string; timeoutMs?: number }
  | { kind: "publish"; step: string; topic: string; data: string; id?: string; subject?: string }
  | { kind: "returned"; json: string; unawaited?: string[] }
  | { kind: "threw"; error: ReportedError; step?: string; unawaited?: string[] }
  | { kind: "blocked"; seq: number }
  | { kind: "diverged"; error: ReportedError }
  | { kind: "declined"; error: ReportedError };

/** The JSON text of a report. */
export function encodeReport(n: number, run: string, turn: number, report: Report): string {
  let text = `{"n":${n},"run":"${run}","turn":${turn}`;
  if (report.kind === "completed" && report.logs === undefined) {
    // The most frequent report. This template is five times as fast as the loop below.
    return `${text},"kind":"completed","step":"${report.step}","attempt":${report.attempt},"output":${report.json},"tookMs":${report.tookMs}}`;
  }
  for (const [name, value] of Object.entries(report)) {
    if (value === undefined) continue;
    if (name === "json") text += `,"output":${value}`;
    else text += `,"${name}":${name === "match" || name === "input" || name === "data" ? value : JSON.stringify(value)}`;
  }
  return `${text}}`;
}
