// What a worker and the server say to each other, protocol version 1.

export interface Hello {
  protocol: 1;
  worker: string;
  sdk: string;
  capacity: number;
  workflows: { name: string; version: number; retentionDays?: number }[];
  holds: { run: string; turn: number }[];
}

export interface Welcome {
  session: string;
  leaseSeconds: number;
  maxMessageBytes: number;
  maxReports: number;
}

/** Numbered by `m` from 1, and taken in that order. */
export interface Message {
  m: number;
  acks?: [n: number, seq: number][];
  refused?: { n: number; code: string; detail: string }[];
  later?: number[];
  turns?: Turn[];
  wakes?: Wake[];
  cancels?: { run: string; turn: number }[];
  revoked?: { run: string; turn: number }[];
}

export interface Turn {
  run: string;
  turn: number;
  workflow: string;
  version: number;
  input?: unknown;
  startedAt: string;
  seq: number;
  steps?: Known[];
}

export type Kind = "run" | "sleep" | "wait" | "call";

/** What the journal knows of a step. */
export interface Known {
  step: string;
  kind: Kind;
  seq: number;
  status: "completed" | "failed" | "slept" | "resolved" | "timedOut" | "retry" | "open";
  output?: unknown;
  error?: { code: string; message: string; attempts?: number };
  payload?: unknown;
  attempt?: number;
}

export interface Wake extends Known {
  run: string;
  turn: number;
}

export interface Fault {
  code?: string;
  message: string;
  stack?: string;
  retryable?: boolean;
}

export interface Retry {
  attempts: number;
  backoff: { kind: "fixed" | "linear" | "exp"; baseMs: number; maxMs: number; jitter: number };
}

/** News from a function. `json` and `input` are JSON text, so that nothing is encoded twice. */
export type Report =
  | { kind: "completed"; step: string; attempt: number; json: string; logs: string[] | undefined; tookMs: number }
  | { kind: "failed"; step: string; attempt: number; error: Fault; retry: Retry; logs: string[] | undefined; tookMs: number }
  | { kind: "sleep"; step: string; forMs?: number; untilMs?: number }
  | { kind: "wait"; step: string; event?: string; match?: string; timeoutMs?: number }
  | { kind: "call"; step: string; workflow: string; version?: number; input: string; timeoutMs?: number }
  | { kind: "returned"; json: string }
  | { kind: "threw"; error: Fault; step?: string }
  | { kind: "blocked"; seq: number }
  | { kind: "diverged"; error: Fault }
  | { kind: "declined"; error: Fault };

/** The wire form of a report. */
export function encode(n: number, run: string, turn: number, report: Report): string {
  let text = `{"n":${n},"run":"${run}","turn":${turn}`;
  if (report.kind === "completed" && report.logs === undefined) {
    // What is sent most is written five times as fast.
    return `${text},"kind":"completed","step":"${report.step}","attempt":${report.attempt},"output":${report.json},"tookMs":${report.tookMs}}`;
  }
  for (const [name, value] of Object.entries(report)) {
    if (value === undefined) continue;
    if (name === "json") text += `,"output":${value}`;
    else text += `,"${name}":${name === "match" || name === "input" ? value : JSON.stringify(value)}`;
  }
  return `${text}}`;
}
