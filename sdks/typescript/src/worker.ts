// Talks to the server for the functions that run here. There is one timer per worker and none per step.

import { hostname } from "node:os";
import { type Carrier, Gone, HttpCarrier, leave, Refused, type Sink, SocketCarrier, TooLarge } from "./carrier.js";
import { type Duration, milliseconds } from "./duration.js";
import { ApiError, WorkflowVersionMismatch } from "./errors.js";
import { Address, type Connection, CONNECTION, Http } from "./http.js";
import { describe, type Level } from "./log.js";
import { checkOptions } from "./options.js";
import { isOpening, Outbox } from "./outbox.js";
import { fault, messageOf } from "./policy.js";
import { type Body, type Host, Replay } from "./replay.js";
import type { Log } from "./types.js";
import type { Hello, Message, Report, Turn, Welcome } from "./wire.js";

/** What a worker serves: see `workflow`. */
export interface Served {
  readonly name: string;
  readonly version: number;
  readonly retentionDays?: number | undefined;
  readonly run: (ctx: never, input: never) => unknown;
}

export interface WorkerOptions extends Connection {
  /** Runs that are taken at once, at most 10,000: 100 if it is not given. */
  concurrency?: number;
  /** What people call this worker. Host and process if it is not given. */
  worker?: string;
  /** `auto` takes the socket, and HTTP where a proxy refuses it. */
  transport?: "auto" | "socket" | "http";
  /** Where log lines go, with workflow, run and step among their fields; `false` keeps still. The console if it is not given. */
  logger?: Log | false;
  /** How long running steps have to finish when the worker is stopped: 10 s if it is not given. */
  graceMs?: Duration;
  /** Stops the worker at SIGTERM and SIGINT. */
  handleSignals?: boolean;
}

export interface ServeOptions extends WorkerOptions {
  workflows: readonly Served[];
}

/** A worker at work. */
export interface Worker {
  /** The worker has a session; rejects if it never will. */
  readonly ready: Promise<void>;
  /** The worker has stopped; rejects if the server will not have it. */
  readonly closed: Promise<void>;
  /** Takes no more runs, lets running steps finish, and leaves. */
  stop(): Promise<void>;
  /** The carrier that is used. */
  readonly transport: "socket" | "http";
  /** How many runs are here now. */
  readonly running: number;
}

/** Serves workflows from this process. */
export function serve(options: ServeOptions): Worker {
  return new Serving(options);
}

const SERVE = { workflows: true, concurrency: true, worker: true, transport: true, logger: true, graceMs: true, handleSignals: true } as const;
const SDK = "typescript/0.1.0";
/** Runs that a worker takes at once, and that it may bring into a new session. */
const MOST = 10_000;
/** Milliseconds that a timer takes at most. */
const LONGEST = 2 ** 31 - 1;
/** Milliseconds between two looks at the time. */
const TICK = 200;
/**
 * Ticks that a function may be busy outside steps before later results go on without it. They are not milliseconds:
 * while the process stands still there are none, and the function could do nothing either.
 */
const PATIENCE = 6;

/** Why the signal of a run is aborted that is parked or paused. */
const LEFT = "the run is not here any more";

class Serving implements Worker, Host, Sink {
  readonly ready: Promise<void>;
  readonly closed: Promise<void>;
  private readonly address: Address;
  private readonly http: Http;
  private readonly hello: Omit<Hello, "holds">;
  private readonly workflows = new Map<string, Map<number, Served>>();
  private readonly logger: Log | undefined;
  private readonly graceMs: number;
  private readonly outbox = new Outbox(
    () => this.seen,
    (sentAt) => this.heard(sentAt),
  );
  /** The carrier, whether it is open yet or not. */
  private carrier: Carrier | undefined;
  private isOpen = false;
  private isStopping = false;
  private isClosed = false;
  private isHttp: boolean;
  private readonly mayTurnToHttp: boolean;
  private session: string | undefined;
  /** The last message that was taken, and the last that the server knows to be taken. */
  seen = 0;
  private seenSent = 0;
  private readonly early = new Map<number, Message>();
  private leaseMs = 30_000;
  /** The server has heard what was sent at this time: the lease counts from it. */
  private sure = 0;
  private pinged: number | undefined;
  private failures = 0;
  private readonly runs = new Map<string, Replay>();
  /** Runs that are not here any more, with steps that run still. */
  private readonly leftovers = new Set<Replay>();
  /** Runs that were brought into a new session, and that the server has not confirmed. */
  private readonly unconfirmed = new Set<Replay>();
  private confirmBy = 0;
  /** Some step was held back because of the lease. */
  private hasHeld = false;
  private ticks = 0;
  private readonly stuckRuns: { replay: Replay; due: number }[] = [];
  private readonly timer: NodeJS.Timeout;
  private reconnect: NodeJS.Timeout | undefined;
  private opening!: () => void;
  private failing!: (error: Error) => void;
  private closing!: (error?: Error) => void;
  private drained: (() => void) | undefined;
  // Not by `stop`: what goes wrong meanwhile is told by `closed`, and by that alone.
  private readonly onSignal = (): void => this.drain();

  constructor(options: ServeOptions) {
    checkOptions(options, { ...SERVE, ...CONNECTION }, "a worker");
    const { workflows, concurrency = 100, logger = console, transport = "auto" } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > MOST) {
      throw new TypeError(`concurrency is a whole number from 1 to ${MOST}, not ${concurrency}`);
    }
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
    this.isHttp = transport === "http";
    this.mayTurnToHttp = transport !== "socket";
    this.graceMs = Math.min(LONGEST, milliseconds(options.graceMs ?? 10_000, "graceMs"));
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
    this.ready = new Promise((resolve, reject) => {
      this.opening = resolve;
      this.failing = reject;
    });
    // Whoever does not look at it hears the same of `closed`.
    this.ready.catch(() => {});
    this.closed = new Promise((resolve, reject) => {
      this.closing = (error) => (error === undefined ? resolve() : reject(error));
    });
    if (options.handleSignals === true) {
      process.once("SIGTERM", this.onSignal);
      process.once("SIGINT", this.onSignal);
    }
    this.timer = setInterval(this.tick, TICK);
    this.connect();
  }

  get transport(): "socket" | "http" {
    return this.isHttp ? "http" : "socket";
  }

  get running(): number {
    return this.runs.size;
  }

  async stop(): Promise<void> {
    this.drain();
    await this.closed;
  }

  private drain(): void {
    if (this.isStopping) return;
    this.isStopping = true;
    if (this.isOpen) this.carrier?.capacity(0);
    const grace = new Promise<void>((resolve) => setTimeout(resolve, this.graceMs).unref());
    const idle = new Promise<void>((resolve) => {
      this.drained = resolve;
    });
    this.checkDrained();
    void Promise.race([idle, grace])
      .then(() => {
        // Before the runs are others': a step that is cut off here should not act beside its next attempt.
        this.abort();
        return this.leave();
      })
      .then(() => this.end());
  }

  /** Says goodbye. Without a connection it is tried once: otherwise the runs that are here would wait for a lease. */
  private async leave(): Promise<void> {
    if (this.isOpen) await this.carrier?.leave();
    else if (this.session !== undefined) await leave(this.http, this.session);
  }

  // The session.

  private connect(): void {
    if (this.isClosed) return;
    const capacity = this.isStopping ? 0 : this.hello.capacity;
    this.carrier = this.isHttp ? new HttpCarrier(this.http, this, this.leaseMs) : new SocketCarrier(this.address, this);
    if (this.session !== undefined) {
      this.carrier.begin({ resume: { session: this.session, seen: this.seen, capacity } });
      return;
    }
    let brought = [...this.runs.values()];
    // Runs that only wait are not counted by the server, and lose the least if they begin anew.
    if (brought.length > MOST) brought = brought.sort((a, b) => b.running - a.running).slice(0, MOST);
    const holds = brought.map((replay) => ({ run: replay.id, turn: replay.turn }));
    this.carrier.begin({ hello: { ...this.hello, capacity, holds } });
  }

  opened(welcome: Welcome | undefined, sentAt: number): void {
    this.isOpen = true;
    if (this.failures > 0) this.say("info", "the server is there");
    this.failures = 0;
    if (welcome !== undefined) {
      this.leaseMs = welcome.leaseSeconds * 1_000;
      this.outbox.maxReports = welcome.maxReports;
      this.outbox.maxBytes = welcome.maxMessageBytes;
      if (welcome.session !== this.session) {
        this.session = welcome.session;
        this.seen = 0;
        this.early.clear();
        this.confirmBy = performance.now() + this.leaseMs;
        for (const replay of this.runs.values()) this.unconfirmed.add(replay);
      }
    }
    this.seenSent = this.seen;
    this.outbox.sentAt = performance.now();
    this.heard(sentAt);
    this.opening();
    this.outbox.open(this.carrier as Carrier);
  }

  lost(error: Error): void {
    this.isOpen = false;
    this.carrier = undefined;
    this.outbox.close();
    if (this.isClosed) return;
    let most = Math.min(5_000, 50 * 2 ** this.failures);
    if (error instanceof Gone) {
      this.session = undefined;
      most = 20;
    } else if (error instanceof Refused && error.isForGood && this.mayTurnToHttp) {
      this.say("warn", `${error.message}: going on over HTTP`);
      this.isHttp = true;
      most = 0;
    } else if (error instanceof TooLarge && this.outbox.shrink()) {
      this.say("warn", `somebody on the way refuses large requests (status 413), and the worker sends smaller ones: ${error.detail}`);
      most = 50;
    } else if (error instanceof ApiError && isFinal(error.status, this.session === undefined)) {
      return this.end(error);
    } else if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
      // Somebody on the way, or something that was sent. What is open is sent again, and not at once.
      this.say("warn", `the server answers with status ${error.status}: ${error.detail}`);
      most = Math.max(most, 1_000);
    } else if (this.failures === 0) {
      this.say("warn", `the server is out of reach: ${error.message}`);
    }
    this.failures += 1;
    this.reconnect = setTimeout(() => this.connect(), most * (0.5 + Math.random() / 2));
  }

  heard(sentAt: number): void {
    this.pinged = undefined;
    if (sentAt > this.sure) this.sure = sentAt;
    if (!this.hasHeld) return;
    this.hasHeld = false;
    for (const replay of this.runs.values()) replay.pump();
  }

  answered(): void {
    this.outbox.answered();
  }

  private end(error?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.isOpen = false;
    clearInterval(this.timer);
    clearTimeout(this.reconnect);
    this.carrier?.close();
    this.outbox.close();
    this.http.close();
    process.removeListener("SIGTERM", this.onSignal);
    process.removeListener("SIGINT", this.onSignal);
    this.abort();
    this.runs.clear();
    this.failing(error ?? new Error("the worker was stopped before it had a session"));
    this.closing(error);
  }

  /** Aborts all that is still here. */
  private abort(): void {
    for (const replay of [...this.runs.values(), ...this.leftovers]) replay.abort("the worker has stopped");
  }

  // What the server says.

  message(message: Message): void {
    if (message.m > this.seen) this.early.set(message.m, message);
    for (let next = this.early.get(this.seen + 1); next !== undefined; next = this.early.get(this.seen + 1)) {
      this.early.delete(next.m);
      this.seen = next.m;
      this.take(next);
    }
    if (this.isStopping) this.checkDrained();
  }

  private take(message: Message): void {
    this.each(message.turns, (turn) => this.turn(turn));
    // Before the acks: an output that the journal could not keep is acknowledged, and its step has failed.
    this.each(message.wakes, (wake) => this.held(wake.run, wake.turn)?.wake(wake));
    this.each(message.acks, ([n, seq]) => this.acknowledge(n, seq));
    this.each(message.refused, ({ n, code, detail }) => this.refused(n, code, detail));
    this.each(message.later, (n) => this.outbox.postpone(n));
    this.each(message.cancels, ({ run, turn }) => this.forget(run, turn, "the run has ended"));
    this.each(message.revoked, ({ run, turn }) => this.revoke(run, turn));
  }

  /** Takes one letter after the other. One that cannot be taken fails its run, and no other run misses its own. */
  private each<T>(letters: readonly T[] = [], take: (letter: T) => void): void {
    for (const letter of letters) {
      try {
        take(letter);
      } catch (error) {
        const { run, turn } = (letter ?? {}) as { run?: string; turn?: number };
        this.say("error", `run ${run}: what the server says cannot be taken: ${messageOf(error)}`);
        if (run === undefined || turn === undefined) continue;
        this.forget(run, turn, "the run has failed");
        this.outbox.post(undefined, run, turn, { kind: "threw", error: fault(error) });
      }
    }
  }

  private acknowledge(n: number, seq: number): void {
    const pending = this.outbox.answer(n);
    if (pending?.replay === undefined) return;
    const { replay, report } = pending;
    switch (report.kind) {
      case "completed":
        // After a new session there may be earlier news: the turn that confirms the run tells all of it in its order.
        if (this.unconfirmed.has(replay)) return;
        return replay.acknowledge(report, seq);
      case "failed":
      case "sleep":
      case "wait":
      case "call":
        replay.acknowledge(report, seq);
        return this.outbox.consider(replay);
      case "returned":
      case "threw":
        replay.end();
        return this.drop(replay);
      case "diverged":
        return this.release(replay);
      case "declined":
      case "blocked":
        return;
    }
  }

  private refused(n: number, code: string, detail: string): void {
    const pending = this.outbox.answer(n);
    if (pending === undefined || pending.report.kind === "blocked") return;
    const { replay, report, run, turn } = pending;
    const isLost = code === "FENCED" || code === "RUN_ENDED";
    const thrown = report.kind === "threw" ? ` (the function has thrown: ${report.error.message})` : "";
    if (!isLost) this.say("error", `run ${run}: ${code}: ${detail}${thrown}`);
    // The run has left: nothing waits for what it has said.
    if (!isLost && replay?.isRevoked && report.kind !== "diverged") return;
    if (isLost || replay === undefined || (replay.isOver && report.kind !== "returned")) {
      this.forget(run, turn, detail);
      if (isLost || replay === undefined || report.kind !== "threw") return;
      // Nobody else would end the run: it is said once more, in words of the server alone.
      return this.outbox.post(undefined, run, turn, { kind: "threw", error: { code, message: detail } });
    }
    // Nobody will ever take it, and the function waits for it: the run cannot go on.
    if (code === "NONDETERMINISTIC") {
      replay.revoke();
      return this.outbox.post(replay, run, turn, { kind: "diverged", error: { code, message: detail } });
    }
    replay.isOver = true;
    const threw: Report = { kind: "threw", error: { code, message: detail } };
    if ("step" in report && report.step !== undefined) threw.step = report.step;
    this.outbox.post(replay, run, turn, threw);
  }

  private turn(turn: Turn): void {
    const before = this.runs.get(turn.run);
    if (before !== undefined && before.turn > turn.turn) return;
    if (before?.turn === turn.turn) {
      this.unconfirmed.delete(before);
      before.merge(turn);
      before.saidBlocked = -1;
      return this.outbox.consider(before);
    }
    this.forget(turn.run, turn.turn - 1, "the run has begun anew");
    if (this.isStopping) return this.decline(turn.run, turn.turn);
    const versions = this.workflows.get(turn.workflow);
    const workflow = versions?.get(turn.version);
    if (workflow === undefined) {
      const newest = versions === undefined ? 0 : Math.max(...versions.keys());
      const { message } = new WorkflowVersionMismatch(turn.workflow, newest, turn.version);
      this.say("warn", `run ${turn.run}: ${message}`);
      return this.outbox.post(undefined, turn.run, turn.turn, { kind: "declined", error: { code: "WORKFLOW_VERSION_MISMATCH", message } });
    }
    const replay = new Replay(this, turn);
    this.runs.set(turn.run, replay);
    replay.begin(workflow.run as Body);
  }

  /** This worker is being stopped: another goes on with the run, and does not wait for what else is here. */
  private decline(run: string, turn: number): void {
    this.forget(run, turn, LEFT);
    this.outbox.post(undefined, run, turn, { kind: "declined", error: { code: "WORKER_STOPPING", message: "the worker is being stopped" } });
  }

  private revoke(run: string, turn: number): void {
    const replay = this.held(run, turn);
    if (replay !== undefined) this.release(replay);
  }

  /** The run goes on without this function. What its steps give is still of use. */
  private release(replay: Replay): void {
    replay.revoke();
    if (replay.running === 0) replay.abort(LEFT);
    this.drop(replay);
  }

  /** Ends what is here of a run, up to a turn. */
  private forget(run: string, turn: number, reason: string): void {
    const replay = this.runs.get(run);
    if (replay !== undefined && replay.turn <= turn) {
      replay.abort(reason);
      this.drop(replay);
    }
    for (const left of this.leftovers) if (left.id === run && left.turn <= turn) left.abort(reason);
  }

  private drop(replay: Replay): void {
    if (this.runs.get(replay.id) === replay) this.runs.delete(replay.id);
    this.unconfirmed.delete(replay);
    if (replay.running > 0) this.leftovers.add(replay);
  }

  private held(run: string, turn: number): Replay | undefined {
    const replay = this.runs.get(run);
    return replay?.turn === turn ? replay : undefined;
  }

  // What functions say.

  report(replay: Replay, report: Report): void {
    this.outbox.post(replay, replay.id, replay.turn, report);
    if (isOpening(report)) this.outbox.consider(replay);
    else if (replay.isRevoked) this.idle(replay);
  }

  mayStart(replay: Replay): boolean {
    if (performance.now() < this.sure + this.leaseMs && !this.isStopping && (this.unconfirmed.size === 0 || !this.unconfirmed.has(replay))) {
      return true;
    }
    this.hasHeld = true;
    return false;
  }

  stuck(replay: Replay): void {
    this.stuckRuns.push({ replay, due: this.ticks + PATIENCE });
  }

  /** A function may be silent for as long as a worker may. */
  get rounds(): number {
    return Math.ceil(this.leaseMs / (TICK * PATIENCE));
  }

  quiet(replay: Replay): void {
    this.outbox.consider(replay);
  }

  idle(replay: Replay): void {
    if (replay.running === 0 && this.leftovers.delete(replay)) replay.abort(LEFT);
    if (this.isStopping) this.checkDrained();
  }

  line(level: Level, message: string, fields: object | undefined, replay: Replay, step: string | undefined): void {
    const of = { workflow: replay.source.workflow, run: replay.id, ...(step === undefined ? {} : { step }) };
    if (this.logger === console) console[level](`${Object.values(of).join(" ")}: ${describe(level, message, fields)}`);
    else this.logger?.[level](message, { ...of, ...fields });
  }

  clock(): number {
    return performance.now();
  }

  private say(level: Level, message: string): void {
    this.logger?.[level](`everstep: ${message}`);
  }

  // Time.

  private readonly tick = (): void => {
    const now = performance.now();
    this.ticks += 1;
    for (let next = this.stuckRuns[0]; next !== undefined && next.due <= this.ticks; next = this.stuckRuns[0]) {
      this.stuckRuns.shift();
      next.replay.patience();
    }
    if (!this.isOpen || this.carrier === undefined) return;
    if (this.unconfirmed.size > 0 && now > this.confirmBy) {
      for (const replay of this.unconfirmed) {
        // The server may still let it go on here. Were it forgotten now, the function would begin anew in the same turn,
        // and do again what a report on its way tells: that one has to be answered first.
        if (replay.running > 0 || replay.unanswered > 0) continue;
        this.forget(replay.id, replay.turn, "the run is another worker's");
      }
    }
    this.outbox.tick(now);
    if (this.isStopping) this.checkDrained();
    if (this.pinged !== undefined && now - this.pinged > this.leaseMs / 3) {
      this.carrier.close();
      return this.lost(new Error("it does not answer"));
    }
    if (this.pinged === undefined && now - Math.min(this.outbox.sentAt, this.sure) > this.leaseMs / 3 && this.carrier.ping()) {
      this.pinged = now;
      this.outbox.sentAt = now;
    }
    if (this.seen === this.seenSent) return;
    this.seenSent = this.seen;
    this.carrier.saw(this.seen);
  };

  private checkDrained(): void {
    if (this.drained === undefined) return;
    const isBusy = this.leftovers.size > 0 || [...this.runs.values()].some((replay) => replay.running > 0);
    if (!isBusy && this.outbox.isEmpty) return this.drained();
    // Some step may take its time. Runs that would begin another go on elsewhere meanwhile.
    for (const replay of this.runs.values()) if (replay.isHeldBack && replay.unanswered === 0) this.decline(replay.id, replay.turn);
  }
}

/** Whether asking again cannot help: the key is no good, or the server does not want what the worker says of itself. */
function isFinal(status: number, isHello: boolean): boolean {
  return status === 401 || status === 403 || (isHello && (status === 400 || status === 409 || status === 422));
}
