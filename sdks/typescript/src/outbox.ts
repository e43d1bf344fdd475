// Reports on their way to the server: kept until they are answered, and sent in batches.
//
// A report is sent in the next tick if nothing is unanswered, and else gathered until the answer comes.

import type { Carrier } from "./carrier.js";
import type { Replay } from "./replay.js";
import { encode, type Fault, type Report } from "./wire.js";

/** A report that is not answered yet. */
export interface Pending {
  readonly n: number;
  readonly text: string;
  readonly report: Report;
  readonly run: string;
  readonly turn: number;
  readonly replay: Replay | undefined;
  /** The message that it went with last. */
  batch: number;
}

/** After which time a report is sent again that the server could not take. */
const LATER = 1_000;
/** How long one answer may hold up everything else. */
const PATIENCE = 250;
/** Characters of a report that a run is blocked, at most. */
const BLOCKED = 160;
/** Characters of an error's message that are kept at any rate. */
const SENTENCE = 200;
/** Bytes of a message that are not reports. */
const ENVELOPE = 1_024;

export class Outbox {
  maxReports = 512;
  maxBytes = 4 * 1024 * 1024;
  /** Characters of reports in one message that were not refused yet. */
  private most = Number.POSITIVE_INFINITY;
  /** When something was sent last. */
  sentAt = 0;
  private carrier: Carrier | undefined;
  private n = 0;
  private readonly unanswered = new Map<number, Pending>();
  private queue: Pending[] = [];
  private readonly postponed: { pending: Pending; due: number }[] = [];
  /** Runs that may wait for the journal alone. */
  private candidates: Replay[] = [];
  private batch = 0;
  private batchAt = 0;
  /** How much went with the last message. */
  private batchSize = { reports: 0, characters: 0 };
  private inFlight = 0;
  private isFlushing = false;

  constructor(
    /** The last message that was taken. */
    private readonly seen: () => number,
    /** The server has answered everything that was sent at this time. */
    private readonly heard: (sentAt: number) => void,
  ) {}

  get isEmpty(): boolean {
    return this.unanswered.size === 0;
  }

  /** There is a carrier. */
  open(carrier: Carrier): void {
    this.carrier = carrier;
    this.flushSoon();
  }

  /** There is no carrier any more: all that is unanswered is sent again. */
  close(): void {
    this.carrier = undefined;
    this.inFlight = 0;
    this.queue = [...this.unanswered.values()];
    this.postponed.length = 0;
  }

  /** The last message was larger than somebody on the way takes: the next are smaller. False if they cannot be. */
  shrink(): boolean {
    if (this.batchSize.reports > 1) {
      this.most = Math.floor(this.batchSize.characters / 2);
      return true;
    }
    const alone = [...this.unanswered.values()].find((pending) => pending.batch === this.batch);
    if (alone === undefined) return true;
    // Its size is not what is refused.
    if (alone.text.length <= ENVELOPE) return false;
    const report = smaller(alone.report, `somebody on the way refuses its ${Buffer.byteLength(alone.text)} bytes`);
    if (report === undefined) return false;
    this.unanswered.set(alone.n, { ...alone, report, text: encode(alone.n, alone.run, alone.turn, report) });
    this.queue = [...this.unanswered.values()];
    return true;
  }

  post(replay: Replay | undefined, run: string, turn: number, report: Report): void {
    const pending = this.pend(replay, run, turn, report);
    if (replay !== undefined) replay.unanswered += 1;
    this.queue.push(pending);
    this.flushSoon();
  }

  /** Perhaps the function waits for the journal alone: that is looked at when the next message is made. */
  consider(replay: Replay): void {
    if (replay.isCandidate || replay.saidBlocked === replay.moves) return;
    replay.isCandidate = true;
    this.candidates.push(replay);
    this.flushSoon();
  }

  /** A report is answered. Undefined if it was answered before. */
  answer(n: number): Pending | undefined {
    const pending = this.unanswered.get(n);
    if (pending === undefined) return undefined;
    this.unanswered.delete(n);
    if (pending.replay !== undefined && pending.report.kind !== "blocked") pending.replay.unanswered -= 1;
    this.land(pending);
    return pending;
  }

  /** A report is to be sent again in a while. */
  postpone(n: number): void {
    const pending = this.unanswered.get(n);
    if (pending === undefined) return;
    this.land(pending);
    this.postponed.push({ pending, due: performance.now() + LATER });
  }

  /** Sends what was postponed and is due, and what waits too long for the answer to something else. */
  tick(now: number): void {
    if (this.inFlight > 0 && now - this.batchAt > PATIENCE) this.answered();
    for (let next = this.postponed[0]; next !== undefined && next.due <= now; next = this.postponed[0]) {
      this.postponed.shift();
      if (this.unanswered.has(next.pending.n)) this.queue.push(next.pending);
      this.flushSoon();
    }
  }

  /** A request with reports was answered, if not all of them. */
  answered(): void {
    this.inFlight = 0;
    this.flushSoon();
  }

  private pend(replay: Replay | undefined, run: string, turn: number, report: Report): Pending {
    const n = ++this.n;
    let text = encode(n, run, turn, report);
    const most = this.maxBytes - ENVELOPE;
    while (text.length * 3 > most && Buffer.byteLength(text) > most) {
      const less = smaller(report, `it has more than ${this.maxBytes} bytes`);
      if (less === undefined) break;
      report = less;
      text = encode(n, run, turn, report);
    }
    const pending: Pending = { n, text, report, run, turn, replay, batch: 0 };
    this.unanswered.set(n, pending);
    return pending;
  }

  private land(pending: Pending): void {
    if (pending.batch !== this.batch || this.inFlight === 0) return;
    this.inFlight -= 1;
    if (this.inFlight > 0) return;
    this.heard(this.batchAt);
    this.flushSoon();
  }

  private flushSoon(): void {
    if (this.isFlushing || this.carrier === undefined) return;
    this.isFlushing = true;
    // After all microtasks: what the functions do next travels along.
    queueMicrotask(this.arm);
  }

  private readonly arm = (): void => process.nextTick(this.flush);

  private readonly flush = (): void => {
    this.isFlushing = false;
    const carrier = this.carrier;
    if (carrier === undefined || this.inFlight > 0 || carrier.isBusy) return;
    const batch = ++this.batch;
    const queue = this.queue;
    let reports = "";
    let count = 0;
    while (count < queue.length && count < this.maxReports) {
      const pending = queue[count] as Pending;
      if (count > 0 && this.isMuch(reports.length + pending.text.length)) break;
      reports = count === 0 ? pending.text : `${reports},${pending.text}`;
      pending.batch = batch;
      if (pending.replay !== undefined && isOpening(pending.report)) pending.replay.inBatch += 1;
      count += 1;
    }
    this.queue = count === queue.length ? [] : queue.slice(count);
    const candidates = this.candidates;
    if (candidates.length > 0) {
      this.candidates = [];
      for (const replay of candidates) {
        if (!this.isBlocked(replay)) continue;
        if (count >= this.maxReports || (count > 0 && this.isMuch(reports.length + BLOCKED))) {
          this.consider(replay);
          continue;
        }
        replay.saidBlocked = replay.moves;
        const pending = this.pend(replay, replay.id, replay.turn, { kind: "blocked", seq: replay.seq });
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
    carrier.send(this.seen(), reports);
  };

  /** Whether a message with so many characters may be too large. */
  private isMuch(characters: number): boolean {
    return characters * 3 > this.maxBytes || characters > this.most;
  }

  /** Whether a candidate waits for the journal alone, once the message is there that is being made. */
  private isBlocked(replay: Replay): boolean {
    replay.isCandidate = false;
    return replay.saidBlocked !== replay.moves && replay.isBlocked(replay.inBatch);
  }
}

export function isOpening(report: Report): boolean {
  return report.kind === "sleep" || report.kind === "wait" || report.kind === "call";
}

/** Less in place of a report that is larger than a message may be: what explains it goes before what it says. */
function smaller(report: Report, message: string): Report | undefined {
  if ("logs" in report && report.logs !== undefined) return { ...report, logs: undefined };
  if ("error" in report) {
    const { stack, ...error } = report.error;
    if (stack !== undefined) return { ...report, error };
    return error.message.length > SENTENCE ? { ...report, error: { ...error, message: error.message.slice(0, SENTENCE) } } : undefined;
  }
  const error: Fault = { code: "PAYLOAD_TOO_LARGE", message };
  switch (report.kind) {
    case "completed": {
      const { step, attempt, tookMs } = report;
      const retry = { attempts: 1, backoff: { kind: "fixed" as const, baseMs: 0, maxMs: 0, jitter: 0 } };
      return { kind: "failed", step, attempt, error: { ...error, retryable: false }, retry, logs: undefined, tookMs };
    }
    case "wait":
    case "call":
      return { kind: "threw", error, step: report.step };
    case "returned":
      return { kind: "threw", error };
    default:
      return undefined;
  }
}
