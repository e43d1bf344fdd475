// Reports on their way to the server: kept until they are answered, and sent in batches.
//
// A report is sent in the next tick of the event loop if no batch is unanswered. Otherwise reports are gathered until the
// answer arrives.

import type { Replay } from "./replay.js";
import type { Transport } from "./transport.js";
import { UnansweredReports } from "./unanswered-reports.js";
import { encodeReport, type Report, type ReportedError } from "./wire.js";

/** A report that is not answered yet. */
export interface PendingReport {
  readonly n: number;
  readonly text: string;
  readonly report: Report;
  readonly run: string;
  readonly turn: number;
  readonly replay: Replay | undefined;
  /** The batch that contained it last. */
  batch: number;
}

/** Milliseconds after which a report that the server could not process (`later`) is sent again. */
const RESEND_DELAY_MS = 1_000;
/** Milliseconds that an unanswered batch may delay the next one. */
const BATCH_WAIT_MAX_MS = 250;
/** Characters of a `blocked` report. */
const BLOCKED_CHARACTERS_MAX = 160;
/** Characters of an error message that are kept when a report is shortened. */
const SHORT_MESSAGE_CHARACTERS = 200;
const TOO_LARGE_REMEDY = "store large values elsewhere, for example in an object store, and pass a reference";
/** Bytes of a request that do not belong to reports. */
const ENVELOPE_BYTES_MAX = 1_024;

export class Outbox {
  maxReports = 512;
  maxBytes = 4 * 1024 * 1024;
  /** The extensions of the first protocol version that the server accepts. */
  features: readonly string[] = [];
  /** Characters of reports in one batch: less than a size that was refused. */
  private maxCharacters = Number.POSITIVE_INFINITY;
  /** When something was sent last. */
  sentAt = 0;
  private transport: Transport | undefined;
  private n = 0;
  private readonly unanswered = new UnansweredReports();
  private queue: PendingReport[] = [];
  private readonly postponed: { pending: PendingReport; due: number }[] = [];
  /** Runs that may be blocked. */
  private candidates: Replay[] = [];
  private batch = 0;
  private batchAt = 0;
  /** The size of the last batch. */
  private batchSize = { reports: 0, characters: 0 };
  private inFlight = 0;
  private isFlushing = false;

  constructor(
    /** The number of the last message that was processed. */
    private readonly seen: () => number,
    /** The server has received everything that was sent at this time. */
    private readonly confirmed: (sentAt: number) => void,
  ) {}

  get isEmpty(): boolean {
    return this.unanswered.isEmpty;
  }

  /** A transport is open. */
  open(transport: Transport): void {
    this.transport = transport;
    this.flushSoon();
  }

  /** The transport is lost: every unanswered report is sent again over the next one. */
  close(): void {
    this.transport = undefined;
    this.inFlight = 0;
    this.queue = this.unanswered.list();
    this.postponed.length = 0;
  }

  /** The last batch was refused because of its size: the next ones are smaller. False if it cannot be made smaller. */
  shrink(): boolean {
    if (this.batchSize.reports > 1) {
      this.maxCharacters = Math.floor(this.batchSize.characters / 2);
      return true;
    }
    const alone = this.unanswered.list().find((pending) => pending.batch === this.batch);
    if (alone === undefined) return true;
    // The report is small: its size is not the reason.
    if (alone.text.length <= ENVELOPE_BYTES_MAX) return false;
    const report = shorten(alone.report, `a proxy or the server refuses the report, which has ${Buffer.byteLength(alone.text)} bytes; ${TOO_LARGE_REMEDY}`);
    if (report === undefined) return false;
    this.unanswered.replace({ ...alone, report, text: this.encode(alone.n, alone.run, alone.turn, report) });
    this.queue = this.unanswered.list();
    return true;
  }

  post(replay: Replay | undefined, run: string, turn: number, report: Report): void {
    const pending = this.add(replay, run, turn, report);
    if (replay !== undefined) replay.unanswered += 1;
    this.queue.push(pending);
    this.flushSoon();
  }

  /** The function may be blocked: this is checked when the next batch is made. */
  considerBlocked(replay: Replay): void {
    if (replay.isCandidate || replay.saidBlocked === replay.moves) return;
    replay.isCandidate = true;
    this.candidates.push(replay);
    this.flushSoon();
  }

  /** Removes a report that was answered. Undefined if it was answered before. */
  answer(n: number): PendingReport | undefined {
    const pending = this.unanswered.remove(n);
    if (pending === undefined) return undefined;
    if (pending.replay !== undefined && pending.report.kind !== "blocked") pending.replay.unanswered -= 1;
    this.settle(pending);
    return pending;
  }

  /** Whether a step has completed here and the server has not answered the report. */
  hasCompleted(replay: Replay, step: string): boolean {
    for (const { replay: of, report } of this.unanswered.newestFirst()) {
      if (of === replay && report.kind === "completed" && report.step === step) return true;
    }
    return false;
  }

  /** The server could not process a report now: it is sent again later. */
  postpone(n: number): void {
    const pending = this.unanswered.get(n);
    if (pending === undefined) return;
    this.settle(pending);
    this.postponed.push({ pending, due: performance.now() + RESEND_DELAY_MS });
  }

  /** Sends postponed reports that are due, and stops waiting for a batch that takes too long. */
  tick(now: number): void {
    if (this.inFlight > 0 && now - this.batchAt > BATCH_WAIT_MAX_MS) this.batchAnswered();
    for (let next = this.postponed[0]; next !== undefined && next.due <= now; next = this.postponed[0]) {
      this.postponed.shift();
      if (this.unanswered.get(next.pending.n) !== undefined) this.queue.push(next.pending);
      this.flushSoon();
    }
  }

  /** The request with the last batch was answered, though perhaps not every report in it. */
  batchAnswered(): void {
    this.inFlight = 0;
    this.flushSoon();
  }

  private add(replay: Replay | undefined, run: string, turn: number, report: Report): PendingReport {
    const n = ++this.n;
    if ((report.kind === "publish" || report.kind === "wait") && this.lacksTopics(report)) report = unsupported(report);
    let text = this.encode(n, run, turn, report);
    const bytesMax = this.maxBytes - ENVELOPE_BYTES_MAX;
    while (text.length * 3 > bytesMax && Buffer.byteLength(text) > bytesMax) {
      const shorter = shorten(report, `the report has more than ${this.maxBytes} bytes; ${TOO_LARGE_REMEDY}`);
      if (shorter === undefined) break;
      report = shorter;
      text = this.encode(n, run, turn, report);
    }
    const pending: PendingReport = { n, text, report, run, turn, replay, batch: 0 };
    this.unanswered.add(pending);
    return pending;
  }

  private encode(n: number, run: string, turn: number, report: Report): string {
    const isEnd = report.kind === "returned" || report.kind === "threw";
    const isKnown = !isEnd || report.unawaited === undefined || this.features.includes("unawaited");
    return encodeReport(n, run, turn, isKnown ? report : withoutUnawaited(report));
  }

  /** Whether the server is of an earlier release, which rejects the report. */
  private lacksTopics(report: Report & { kind: "publish" | "wait" }): boolean {
    return (report.kind === "publish" || report.since !== undefined) && !this.features.includes("topics");
  }

  /** A report of the last batch is answered or postponed. */
  private settle(pending: PendingReport): void {
    if (pending.batch !== this.batch || this.inFlight === 0) return;
    this.inFlight -= 1;
    if (this.inFlight > 0) return;
    this.confirmed(this.batchAt);
    this.flushSoon();
  }

  private flushSoon(): void {
    if (this.isFlushing || this.transport === undefined) return;
    this.isFlushing = true;
    // After all microtasks, so that the next reports of the functions are part of the batch.
    queueMicrotask(this.scheduleFlush);
  }

  private readonly scheduleFlush = (): void => process.nextTick(this.flush);

  private readonly flush = (): void => {
    this.isFlushing = false;
    const transport = this.transport;
    if (transport === undefined || this.inFlight > 0 || transport.isBusy) return;
    const batch = ++this.batch;
    const queue = this.queue;
    let reports = "";
    let count = 0;
    while (count < queue.length && count < this.maxReports) {
      const pending = queue[count] as PendingReport;
      if (count > 0 && this.isTooLarge(reports.length + pending.text.length)) break;
      reports = count === 0 ? pending.text : `${reports},${pending.text}`;
      pending.batch = batch;
      if (pending.replay !== undefined && opensStep(pending.report)) pending.replay.inBatch += 1;
      count += 1;
    }
    this.queue = count === queue.length ? [] : queue.slice(count);
    const candidates = this.candidates;
    if (candidates.length > 0) {
      this.candidates = [];
      for (const replay of candidates) {
        if (!this.isBlocked(replay)) continue;
        if (count >= this.maxReports || (count > 0 && this.isTooLarge(reports.length + BLOCKED_CHARACTERS_MAX))) {
          this.considerBlocked(replay);
          continue;
        }
        replay.saidBlocked = replay.moves;
        const pending = this.add(replay, replay.id, replay.turn, { kind: "blocked", seq: replay.seq });
        pending.batch = batch;
        reports = count === 0 ? pending.text : `${reports},${pending.text}`;
        count += 1;
      }
    }
    for (const pending of queue) if (pending.replay !== undefined) pending.replay.inBatch = 0;
    if (count === 0) return;
    this.inFlight = count;
    this.batchSize = { reports: count, characters: reports.length };
    this.batchAt = performance.now();
    this.sentAt = this.batchAt;
    transport.send(this.seen(), reports);
  };

  /** Whether a batch with so many characters may be too large. A character has at most three bytes. */
  private isTooLarge(characters: number): boolean {
    return characters * 3 > this.maxBytes || characters > this.maxCharacters;
  }

  /** Whether a candidate is blocked once the batch that is being made is answered. */
  private isBlocked(replay: Replay): boolean {
    replay.isCandidate = false;
    return replay.saidBlocked !== replay.moves && replay.isBlocked(replay.inBatch);
  }
}

/** Whether a report opens a step that the server will settle: a sleep, a wait or a call. */
export function opensStep(report: Report): boolean {
  return report.kind === "sleep" || report.kind === "wait" || report.kind === "call";
}

/** The report for a server that does not know the field `unawaited`. */
export function withoutUnawaited(report: Report & { unawaited?: string[] }): Report {
  const { unawaited: _, ...rest } = report;
  return rest;
}

/** The function cannot continue without topics: its run fails, and can be retried when the server is upgraded. */
function unsupported({ kind, step }: Report & { kind: "publish" | "wait" }): Report {
  const what = kind === "publish" ? "publish steps" : "waits with since";
  const message = `the server does not support ${what}: upgrade the server, then retry the run`;
  return { kind: "threw", error: { code: "NOT_SUPPORTED", message }, step };
}

/** A shorter report in place of one that is too large: log lines and stacks are dropped first, then the value becomes a failure. */
function shorten(report: Report, message: string): Report | undefined {
  if ("logs" in report && report.logs !== undefined) return { ...report, logs: undefined };
  if ("error" in report) {
    const { stack, ...error } = report.error;
    if (stack !== undefined) return { ...report, error };
    if (error.message.length <= SHORT_MESSAGE_CHARACTERS) return undefined;
    return { ...report, error: { ...error, message: error.message.slice(0, SHORT_MESSAGE_CHARACTERS) } };
  }
  const error: ReportedError = { code: "PAYLOAD_TOO_LARGE", message };
  switch (report.kind) {
    case "completed": {
      const { step, attempt, tookMs } = report;
      const retry = { attempts: 1, backoff: { kind: "fixed" as const, baseMs: 0, maxMs: 0, jitter: 0 } };
      return { kind: "failed", step, attempt, error: { ...error, retryable: false }, retry, logs: undefined, tookMs };
    }
    case "wait":
    case "call":
    case "publish":
      return { kind: "threw", error, step: report.step };
    case "returned":
      return { ...("unawaited" in report ? { unawaited: report.unawaited } : {}), kind: "threw", error };
    default:
      return undefined;
  }
}
