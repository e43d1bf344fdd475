// A replay without a worker: what it tells its host is written down.
import { describe as describeLine, type Level } from "../src/log.js";
import { type Body, type Host, Replay } from "../src/replay.js";
import type { Context } from "../src/types.js";
import type { Known, Report } from "../src/wire.js";

/** A host that writes down what it is told. */
export class Notes implements Host {
  readonly reports: Report[] = [];
  readonly lines: string[] = [];
  stuckCount = 0;
  quietCount = 0;
  rounds = 1;
  may = true;
  report(_replay: Replay, report: Report): void {
    this.reports.push(report);
  }
  mayStart(): boolean {
    return this.may;
  }
  stuck(): void {
    this.stuckCount += 1;
  }
  quiet(): void {
    this.quietCount += 1;
  }
  idle(): void {}
  line(level: Level, message: string, fields: object | undefined, _replay: Replay, step: string | undefined): void {
    const line = describeLine(level, message, fields);
    this.lines.push(step === undefined ? line : `${step}: ${line}`);
  }
  clock(): number {
    return 0;
  }
  /** Kinds and steps of what was reported. */
  get told(): string[] {
    return this.reports.map((report) => ("step" in report && report.step !== undefined ? `${report.kind} ${report.step}` : report.kind));
  }
}

export function done(step: string, seq: number, output: unknown = step): Known {
  return { step, kind: "run", seq, status: "completed", output };
}

export function begin(steps: Known[], body: (ctx: Context, input: unknown) => unknown): { host: Notes; replay: Replay } {
  const host = new Notes();
  const seq = Math.max(1, ...steps.map((known) => known.seq));
  const replay = new Replay(host, { run: "r", turn: 1, workflow: "w", version: 1, input: null, startedAt: "2026-05-01T12:00:00Z", seq, steps });
  replay.begin(body as Body);
  return { host, replay };
}

/** Lets everything happen that can happen by itself. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
