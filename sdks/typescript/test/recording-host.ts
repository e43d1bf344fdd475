// A replay without a worker: a host that records the calls.
import { formatLine, type LogLevel } from "../src/log.js";
import { type Body, type Host, Replay } from "../src/replay.js";
import type { Context } from "../src/types.js";
import type { StepRecord, Report } from "../src/wire.js";

/** Records the calls of a replay. */
export class RecordingHost implements Host {
  readonly reports: Report[] = [];
  readonly lines: string[] = [];
  stuckCount = 0;
  drainedCount = 0;
  stuckChecksMax = 1;
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
  drained(): void {
    this.drainedCount += 1;
  }
  stepDiscarded(): void {}
  writeLog(level: LogLevel, message: string, fields: object | undefined, _replay: Replay, step: string | undefined): void {
    const line = formatLine(level, message, fields);
    this.lines.push(step === undefined ? line : `${step}: ${line}`);
  }
  clock(): number {
    return 0;
  }
  /** Kinds and steps of what was reported. */
  get sent(): string[] {
    return this.reports.map((report) => ("step" in report && report.step !== undefined ? `${report.kind} ${report.step}` : report.kind));
  }
}

export function done(step: string, seq: number, output: unknown = step): StepRecord {
  return { step, kind: "run", seq, status: "completed", output };
}

export function begin(steps: StepRecord[], body: (ctx: Context, input: unknown) => unknown): { host: RecordingHost; replay: Replay } {
  const host = new RecordingHost();
  const seq = Math.max(1, ...steps.map((record) => record.seq));
  const replay = new Replay(host, { run: "r", turn: 1, workflow: "w", version: 1, input: null, startedAt: "2026-05-01T12:00:00Z", seq, steps });
  replay.begin(body as Body);
  return { host, replay };
}

/** Lets everything happen that can happen by itself. A function whose step has failed reports its end an immediate later. */
export const settle = async () => {
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** Waits for a condition, at most five seconds. The assertion that follows reports the state if it never holds. */
export const until = async (holds: () => boolean) => {
  for (const end = Date.now() + 5_000; !holds() && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 1));
  await settle();
};
