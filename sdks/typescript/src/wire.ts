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
  maxResults: number;
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

/** A result as it is sent. */
export function encode(n: number, run: string, turn: number, report: Report): string {
  const head = `{"n":${n},"run":"${run}","turn":${turn},"kind":"${report.kind}"`;
  switch (report.kind) {
    case "completed":
      return `${head},"step":"${report.step}","attempt":${report.attempt},"output":${report.json}${logs(report.logs)},"tookMs":${report.tookMs}}`;
    case "failed":
      return (
        `${head},"step":"${report.step}","attempt":${report.attempt},"error":${JSON.stringify(report.error)},` +
        `"retry":${JSON.stringify(report.retry)}${logs(report.logs)},"tookMs":${report.tookMs}}`
      );
    case "sleep":
      return report.forMs === undefined
        ? `${head},"step":"${report.step}","untilMs":${report.untilMs}}`
        : `${head},"step":"${report.step}","forMs":${report.forMs}}`;
    case "wait":
      return (
        `${head},"step":"${report.step}"${field("event", report.event)}` +
        `${report.match === undefined ? "" : `,"match":${report.match}`}${field("timeoutMs", report.timeoutMs)}}`
      );
    case "call":
      return (
        `${head},"step":"${report.step}"${field("workflow", report.workflow)}${field("version", report.version)},` +
        `"input":${report.input}${field("timeoutMs", report.timeoutMs)}}`
      );
    case "returned":
      return `${head},"output":${report.json}}`;
    case "threw":
      return `${head},"error":${JSON.stringify(report.error)}${field("step", report.step)}}`;
    case "blocked":
      return `${head},"seq":${report.seq}}`;
    case "diverged":
    case "declined":
      return `${head},"error":${JSON.stringify(report.error)}}`;
  }
}

function field(name: string, value: string | number | undefined): string {
  return value === undefined ? "" : `,"${name}":${JSON.stringify(value)}`;
}

function logs(lines: string[] | undefined): string {
  return lines === undefined || lines.length === 0 ? "" : `,"logs":${JSON.stringify(lines)}`;
}
