// Talks to the server for the functions that run here: sessions, batches, leases.
//
// Results are sent in the next tick if nothing is unanswered, and else gathered until the answer comes.
// There is one timer per worker and none per step.

import { hostname } from "node:os";
import { type Carrier, Gone, HttpCarrier, Refused, type Sink, SocketCarrier } from "./carrier.js";
import { ApiError, WorkflowVersionMismatch } from "./errors.js";
import { Address, type Connection, Http } from "./http.js";
import type { Level } from "./log.js";
import { type Body, fault, type Host, Replay } from "./replay.js";
import type { Log } from "./types.js";
import { encode, type Fault, type Hello, type Message, type Report, type Turn, type Welcome } from "./wire.js";

/** What a worker serves: see `workflow`. */
export interface Served {
  readonly name: string;
  readonly version: number;
  readonly retentionDays?: number | undefined;
  readonly run: (ctx: never, input: never) => unknown;
}

export interface WorkerOptions extends Connection {
  /** Runs that are taken at once. */
  concurrency?: number;
  /** What people call this worker. Host and process if it is not given. */
  worker?: string;
  /** `auto` takes the socket, and HTTP where a proxy refuses it. */
  transport?: "auto" | "socket" | "http";
  /** Where log lines go; `false` keeps still. The console if it is not given. */
  logger?: Log | false;
  /** Milliseconds that running steps have to finish when the worker is stopped. */
  graceMs?: number;
  /** Stops the worker at SIGTERM and SIGINT. */
  handleSignals?: boolean;
}

export interface ServeOptions extends WorkerOptions {
  workflows: readonly Served[];
}

/** A worker at work. */
export interface Worker {
  /** The worker has a session. */
  readonly ready: Promise<void>;
  /** The worker has stopped; rejects if the server will not have it. */
  readonly closed: Promise<void>;
  /** Takes no more runs, lets running steps finish, and leaves. */
  stop(): Promise<void>;
  /** The carrier that is used: `socket` or `http`. */
  readonly transport: "socket" | "http";
  /** Runs that are here now. */
  readonly running: number;
}

/** Serves workflows from this process. */
export function serve(options: ServeOptions): Worker {
  const worker = new Talking(options);
  worker.begin();
  return worker;
}

const SDK = "typescript/0.1.0";
/** How long the function may be busy outside steps before it is compared with the journal. */
const PATIENCE = 1_000;
/** After which time a report is sent again that the server could not take. */
const LATER = 1_000;

/** A report that is not answered yet. */
interface Pending {
  n: number;
  text: string;
  report: Report;
  run: string;
  turn: number;
  replay: Replay | undefined;
  batch: number;
}

class Talking implements Worker, Host, Sink {
  readonly ready: Promise<void>;
  readonly closed: Promise<void>;
  private readonly address: Address;
  private readonly http: Http;
  private readonly hello: Omit<Hello, "holds">;
  private readonly workflows = new Map<string, Map<number, Served>>();
  private readonly logger: Log | undefined;
  private carrier: Carrier | undefined;
  private isOpen = false;
  private isStopping = false;
  private isClosed = false;
  private http_only: boolean;
  private session: string | undefined;
  private seen = 0;
  private seenSent = 0;
  private leaseMs = 30_000;
  private maxResults = 512;
  private maxBytes = 4 * 1024 * 1024;
  /** The server has heard what was sent at this time: the lease counts from it. */
  private sure = 0;
  private lastSent = 0;
  private pinged: number | undefined;
  private failures = 0;

  private readonly runs = new Map<string, Replay>();
  /** Runs that are not here any more, with steps that run still. */
  private readonly leftovers = new Set<Replay>();
  /** Runs that were brought into a new session, and that the server has not confirmed. */
  private readonly unconfirmed = new Set<Replay>();
  private confirmBy = 0;
  private hasHeld = false;

  private n = 0;
  private readonly unanswered = new Map<number, Pending>();
  private outbox: Pending[] = [];
  private readonly postponed: { pending: Pending; due: number }[] = [];
  private batch = 0;
  private batchAt = 0;
  private inFlight = 0;
  private isFlushing = false;
  private candidates: Replay[] = [];
  private readonly early = new Map<number, Message>();
  private readonly stuckRuns: { replay: Replay; due: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private reconnect: NodeJS.Timeout | undefined;
  private opened_!: () => void;
  private close!: () => void;
  private fail!: (error: Error) => void;
  private drained: (() => void) | undefined;
  private readonly onSignal = (): void => void this.stop();

  constructor(private readonly options: ServeOptions) {
    const { workflows, concurrency = 100, logger = console, transport = "auto" } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) throw new TypeError(`concurrency is a whole number from 1 on, not ${concurrency}`);
    if (workflows.length === 0) throw new TypeError("a worker serves at least one workflow");
    if (transport !== "auto" && transport !== "socket" && transport !== "http") {
      throw new TypeError(`transport is "auto", "socket" or "http", not ${JSON.stringify(transport)}`);
    }
    for (const workflow of workflows) {
      const versions = this.workflows.get(workflow.name) ?? new Map<number, Served>();
      if (versions.has(workflow.version)) throw new TypeError(`workflow ${workflow.name} is given twice in version ${workflow.version}`);
      this.workflows.set(workflow.name, versions.set(workflow.version, workflow));
    }
    this.address = new Address(options);
    this.http = new Http(this.address, 4);
    this.http_only = transport === "http";
    this.logger = logger === false ? undefined : logger;
    this.hello = {
      protocol: 1,
      worker: options.worker ?? `${hostname()}:${process.pid}`,
      sdk: SDK,
      capacity: concurrency,
      workflows: workflows.map(({ name, version, retentionDays }) =>
        retentionDays === undefined ? { name, version } : { name, version, retentionDays },
      ),
    };
    this.ready = new Promise((resolve) => {
      this.opened_ = resolve;
    });
    this.closed = new Promise((resolve, reject) => {
      this.close = resolve;
      this.fail = reject;
    });
  }

  get transport(): "socket" | "http" {
    return this.http_only ? "http" : "socket";
  }

  get running(): number {
    return this.runs.size;
  }

  begin(): void {
    this.timer = setInterval(this.tick, 200);
    if (this.options.handleSignals === true) {
      process.once("SIGTERM", this.onSignal);
      process.once("SIGINT", this.onSignal);
    }
    this.connect();
  }

  async stop(): Promise<void> {
    if (!this.isStopping) {
      this.isStopping = true;
      if (this.isOpen) this.carrier?.capacity(0);
      const grace = new Promise<void>((resolve) => setTimeout(resolve, this.options.graceMs ?? 10_000).unref());
      const idle = new Promise<void>((resolve) => {
        this.drained = resolve;
      });
      this.checkDrained();
      void Promise.race([idle, grace])
        .then(() => (this.isOpen ? this.carrier?.leave() : undefined))
        .then(() => this.end());
    }
    await this.closed;
  }

  // The session.

  private connect(): void {
    this.reconnect = undefined;
    if (this.isClosed) return;
    const capacity = this.isStopping ? 0 : this.hello.capacity;
    this.carrier = this.http_only
      ? new HttpCarrier(this.http, this, Math.min(10_000, Math.floor(this.leaseMs / 3)))
      : new SocketCarrier(this.address, this);
    if (this.session !== undefined) {
      this.carrier.begin({ resume: { session: this.session, seen: this.seen, capacity } });
      return;
    }
    const holds = [];
    for (const replay of this.runs.values()) holds.push({ run: replay.id, turn: replay.turn });
    this.carrier.begin({ hello: { ...this.hello, capacity, holds } });
  }

  opened(welcome: Welcome | undefined, sentAt: number): void {
    this.isOpen = true;
    this.failures = 0;
    this.pinged = undefined;
    if (welcome !== undefined) {
      this.leaseMs = welcome.leaseSeconds * 1_000;
      this.maxResults = welcome.maxResults;
      this.maxBytes = welcome.maxMessageBytes;
      if (welcome.session !== this.session) {
        this.session = welcome.session;
        this.seen = 0;
        this.early.clear();
        this.confirmBy = performance.now() + this.leaseMs;
        for (const replay of this.runs.values()) this.unconfirmed.add(replay);
      }
    }
    this.lastSent = performance.now();
    this.seenSent = this.seen;
    this.heard(sentAt);
    this.opened_();
    this.flushSoon();
  }

  lost(error: Error): void {
    this.isOpen = false;
    this.carrier = undefined;
    this.inFlight = 0;
    this.outbox = [...this.unanswered.values()];
    this.postponed.length = 0;
    if (this.isClosed) return;
    if (error instanceof Gone) {
      this.session = undefined;
    } else if (error instanceof Refused && this.options.transport !== "socket") {
      this.say("warn", `${error.message}: going on over HTTP`);
      this.http_only = true;
    } else if (error instanceof ApiError && isFinal(error.status)) {
      return this.end(error);
    } else {
      this.say("warn", `the server is out of reach: ${error.message}`);
    }
    const most = error instanceof Gone || error instanceof Refused ? 20 : Math.min(5_000, 50 * 2 ** this.failures);
    this.failures += 1;
    this.reconnect = setTimeout(() => this.connect(), most * (0.5 + Math.random() / 2));
  }

  heard(sentAt: number): void {
    this.pinged = undefined;
    if (sentAt > this.sure) this.sure = sentAt;
    if (this.hasHeld) this.pumpAll();
  }

  answered(): void {
    this.inFlight = 0;
    this.flushSoon();
  }

  private end(error?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.isOpen = false;
    clearInterval(this.timer);
    clearTimeout(this.reconnect);
    this.carrier?.close();
    this.http.close();
    process.removeListener("SIGTERM", this.onSignal);
    process.removeListener("SIGINT", this.onSignal);
    for (const replay of this.runs.values()) replay.abort("the worker has stopped");
    this.runs.clear();
    if (error === undefined) this.close();
    else this.fail(error);
  }

  // What the server says.

  message(message: Message): void {
    if (message.m <= this.seen) return;
    if (message.m !== this.seen + 1) {
      this.early.set(message.m, message);
      return;
    }
    this.seen = message.m;
    this.take(message);
    for (let next = this.early.get(this.seen + 1); next !== undefined; next = this.early.get(this.seen + 1)) {
      this.early.delete(next.m);
      this.seen = next.m;
      this.take(next);
    }
    if (this.isStopping) this.checkDrained();
  }

  private take(message: Message): void {
    if (message.acks !== undefined) for (const ack of message.acks) this.acknowledge(ack[0], ack[1]);
    if (message.refused !== undefined) for (const { n, code, detail } of message.refused) this.refused(n, code, detail);
    if (message.later !== undefined) for (const n of message.later) this.postpone(n);
    if (message.turns !== undefined) for (const turn of message.turns) this.turn(turn);
    if (message.wakes !== undefined) {
      for (const wake of message.wakes) {
        const replay = this.runs.get(wake.run);
        if (replay?.turn === wake.turn) replay.wake(wake);
      }
    }
    if (message.cancels !== undefined) {
      for (const { run, turn } of message.cancels) this.forget(run, turn, "the run has ended");
    }
    if (message.revoked !== undefined) {
      for (const { run, turn } of message.revoked) {
        const replay = this.runs.get(run);
        if (replay?.turn !== turn) continue;
        replay.revoke();
        if (replay.running > 0) this.leftovers.add(replay);
        this.drop(replay);
      }
    }
  }

  private acknowledge(n: number, seq: number): void {
    const pending = this.answer(n);
    if (pending === undefined) return;
    const { replay, report } = pending;
    if (replay === undefined) return;
    switch (report.kind) {
      case "completed":
        return replay.acknowledge(report, seq);
      case "failed":
      case "sleep":
      case "wait":
      case "call":
        replay.acknowledge(report, seq);
        return this.quiet(replay);
      case "blocked":
        return;
      case "returned":
      case "threw":
      case "diverged":
      case "declined":
        return this.drop(replay);
    }
  }

  private refused(n: number, code: string, detail: string): void {
    const pending = this.answer(n);
    if (pending === undefined) return;
    const { replay, report, run, turn } = pending;
    if (code === "FENCED" || code === "RUN_ENDED" || code === "NONDETERMINISTIC" || replay === undefined || replay.isOver) {
      if (report.kind === "blocked") return;
      if (code === "NONDETERMINISTIC") this.say("error", `run ${run}: ${detail}`);
      if (report.kind === "returned" && replay !== undefined && isUnfit(code)) {
        return this.report(replay, { kind: "threw", error: { code, message: detail } });
      }
      return this.forget(run, turn, detail);
    }
    if (report.kind === "blocked") return;
    // Nobody will ever take it: the run cannot go on.
    this.say("error", `run ${run}: ${code}: ${detail}`);
    replay.isOver = true;
    const threw: Report = { kind: "threw", error: { code, message: detail } };
    if ("step" in report && report.step !== undefined) threw.step = report.step;
    this.report(replay, threw);
  }

  private postpone(n: number): void {
    const pending = this.unanswered.get(n);
    if (pending === undefined) return;
    this.landed(pending);
    this.postponed.push({ pending, due: performance.now() + LATER });
  }

  private answer(n: number): Pending | undefined {
    const pending = this.unanswered.get(n);
    if (pending === undefined) return undefined;
    this.unanswered.delete(n);
    if (pending.replay !== undefined && pending.report.kind !== "blocked") pending.replay.unanswered -= 1;
    this.landed(pending);
    return pending;
  }

  private landed(pending: Pending): void {
    if (pending.batch !== this.batch || this.inFlight === 0) return;
    this.inFlight -= 1;
    if (this.inFlight > 0) return;
    this.heard(this.batchAt);
    this.flushSoon();
  }

  private turn(turn: Turn): void {
    const held = this.runs.get(turn.run);
    if (held !== undefined) {
      if (held.turn > turn.turn) return;
      if (held.turn === turn.turn) {
        this.unconfirmed.delete(held);
        held.saidBlocked = -1;
        held.merge(turn);
        return this.quiet(held);
      }
      this.forget(held.id, held.turn, "the run has begun anew");
    }
    if (this.isStopping) return;
    const versions = this.workflows.get(turn.workflow);
    const workflow = versions?.get(turn.version);
    if (workflow === undefined) {
      const newest = versions === undefined ? 0 : Math.max(...versions.keys());
      const error = new WorkflowVersionMismatch(turn.workflow, newest, turn.version);
      this.say("warn", `run ${turn.run}: ${error.message}`);
      const found: Fault = { code: "WORKFLOW_VERSION_MISMATCH", message: error.message };
      return this.post(undefined, turn.run, turn.turn, { kind: "declined", error: found });
    }
    const replay = new Replay(this, turn);
    this.runs.set(turn.run, replay);
    replay.begin(workflow.run as Body);
  }

  private forget(run: string, turn: number, reason: string): void {
    const replay = this.runs.get(run);
    if (replay?.turn !== turn) return;
    replay.abort(reason);
    this.drop(replay);
  }

  private drop(replay: Replay): void {
    if (this.runs.get(replay.id) === replay) this.runs.delete(replay.id);
    this.unconfirmed.delete(replay);
  }

  // What functions say.

  report(replay: Replay, report: Report): void {
    replay.unanswered += 1;
    this.post(replay, replay.id, replay.turn, report);
    if (report.kind === "sleep" || report.kind === "wait" || report.kind === "call") this.quiet(replay);
    if (replay.isRevoked && replay.running === 0) this.leftovers.delete(replay);
  }

  mayStart(replay: Replay): boolean {
    if (performance.now() < this.sure + this.leaseMs && !this.isStopping && (this.unconfirmed.size === 0 || !this.unconfirmed.has(replay))) {
      return true;
    }
    this.hasHeld = true;
    return false;
  }

  stuck(replay: Replay): void {
    this.stuckRuns.push({ replay, due: performance.now() + PATIENCE });
  }

  /** Perhaps the function waits for the journal alone. */
  quiet(replay: Replay): void {
    if (replay.isCandidate || replay.saidBlocked === replay.moves) return;
    replay.isCandidate = true;
    this.candidates.push(replay);
    this.flushSoon();
  }

  idle(replay: Replay): void {
    if (replay.running === 0) this.leftovers.delete(replay);
    if (this.isStopping) this.checkDrained();
  }

  line(level: Level, line: string, replay: Replay, step: string | undefined): void {
    if (this.logger === undefined) return;
    this.logger[level](`${replay.source.workflow} ${replay.id}${step === undefined ? "" : ` ${step}`}: ${line}`);
  }

  clock(): number {
    return performance.now();
  }

  private say(level: Level, message: string): void {
    this.logger?.[level](`everstep: ${message}`);
  }

  // What is sent.

  private post(replay: Replay | undefined, run: string, turn: number, report: Report): void {
    const n = ++this.n;
    let text = encode(n, run, turn, report);
    if (text.length * 3 > this.maxBytes - 1_024 && Buffer.byteLength(text) > this.maxBytes - 1_024) {
      report = tooLarge(report, this.maxBytes);
      text = encode(n, run, turn, report);
    }
    const pending: Pending = { n, text, report, run, turn, replay, batch: 0 };
    this.unanswered.set(n, pending);
    this.outbox.push(pending);
    this.flushSoon();
  }

  private flushSoon(): void {
    if (this.isFlushing || !this.isOpen) return;
    this.isFlushing = true;
    // After all microtasks: what the functions do next travels along.
    queueMicrotask(this.arm);
  }

  private readonly arm = (): void => process.nextTick(this.flush);

  private readonly flush = (): void => {
    this.isFlushing = false;
    const carrier = this.carrier;
    if (!this.isOpen || carrier === undefined || this.inFlight > 0 || carrier.isBusy) return;
    if (this.outbox.length === 0 && this.candidates.length === 0) return;
    const outbox = this.outbox;
    const batch = ++this.batch;
    let results = "";
    let count = 0;
    while (count < outbox.length && count < this.maxResults) {
      const pending = outbox[count] as Pending;
      if (count > 0 && (results.length + pending.text.length) * 3 > this.maxBytes) break;
      results = count === 0 ? pending.text : `${results},${pending.text}`;
      pending.batch = batch;
      if (pending.replay !== undefined && isOpening(pending.report)) pending.replay.inBatch += 1;
      count += 1;
    }
    this.outbox = count === outbox.length ? [] : outbox.slice(count);
    const candidates = this.candidates;
    this.candidates = [];
    for (const replay of candidates) {
      replay.isCandidate = false;
      const isBlocked = replay.saidBlocked !== replay.moves && replay.isBlocked(replay.inBatch);
      replay.inBatch = 0;
      if (!isBlocked || this.runs.get(replay.id) !== replay) continue;
      if (count >= this.maxResults) {
        replay.isCandidate = true;
        this.candidates.push(replay);
        continue;
      }
      replay.saidBlocked = replay.moves;
      const n = ++this.n;
      const report: Report = { kind: "blocked", seq: replay.seq };
      const text = encode(n, replay.id, replay.turn, report);
      this.unanswered.set(n, { n, text, report, run: replay.id, turn: replay.turn, replay, batch });
      results = count === 0 ? text : `${results},${text}`;
      count += 1;
    }
    if (count === 0) return;
    this.inFlight = count;
    this.batchAt = performance.now();
    this.lastSent = this.batchAt;
    this.seenSent = this.seen;
    carrier.send(this.seen, results);
  };

  private readonly tick = (): void => {
    const now = performance.now();
    while (this.stuckRuns.length > 0 && (this.stuckRuns[0] as { due: number }).due <= now) {
      (this.stuckRuns.shift() as { replay: Replay }).replay.patience();
    }
    if (this.unconfirmed.size > 0 && this.isOpen && now > this.confirmBy) {
      for (const replay of this.unconfirmed) this.forget(replay.id, replay.turn, "the run is another worker's");
    }
    if (!this.isOpen || this.carrier === undefined) return;
    while (this.postponed.length > 0 && (this.postponed[0] as { due: number }).due <= now) {
      const { pending } = this.postponed.shift() as { pending: Pending };
      if (this.unanswered.has(pending.n)) this.outbox.push(pending);
      this.flushSoon();
    }
    if (this.transport === "http") return this.carrier.saw(this.seen);
    if (this.pinged !== undefined && now - this.pinged > this.leaseMs / 3) {
      this.carrier.close();
      return this.lost(new Error("it does not answer"));
    }
    if (this.pinged === undefined && now - Math.min(this.lastSent, this.sure) > this.leaseMs / 3) {
      this.pinged = now;
      this.lastSent = now;
      this.carrier.ping();
    }
    if (this.seen !== this.seenSent) {
      this.seenSent = this.seen;
      this.lastSent = now;
      this.carrier.saw(this.seen);
    }
  };

  private pumpAll(): void {
    this.hasHeld = false;
    for (const replay of this.runs.values()) replay.pump();
  }

  private checkDrained(): void {
    if (this.drained === undefined || this.unanswered.size > 0 || this.leftovers.size > 0) return;
    for (const replay of this.runs.values()) if (replay.running > 0) return;
    this.drained();
  }
}

function isOpening(report: Report): boolean {
  return report.kind === "sleep" || report.kind === "wait" || report.kind === "call";
}

/** Whether asking again cannot help. */
function isFinal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 425 && status !== 429;
}

function isUnfit(code: string): boolean {
  return code !== "FENCED" && code !== "RUN_ENDED" && code !== "NONDETERMINISTIC";
}

/** What is said in place of a report that is larger than a message may be. */
function tooLarge(report: Report, most: number): Report {
  const error = { ...fault(new Error(`it has more than ${most} bytes`)), code: "PAYLOAD_TOO_LARGE" };
  delete error.stack;
  switch (report.kind) {
    case "completed":
      return {
        kind: "failed",
        step: report.step,
        attempt: report.attempt,
        error: { ...error, retryable: false },
        retry: { attempts: 1, backoff: { kind: "fixed", baseMs: 0, maxMs: 0, jitter: 0 } },
        logs: undefined,
        tookMs: report.tookMs,
      };
    case "wait":
    case "call":
      return { kind: "threw", error, step: report.step };
    default:
      return { kind: "threw", error };
  }
}
