// A worker: its session with the server, and its end. There is one timer per worker and none per step.

import { hostname } from "node:os";
import { ActiveRuns, type RunsOwner, TICK_MS } from "./active-runs.js";
import { type Duration, milliseconds } from "./duration.js";
import { ApiError } from "./errors.js";
import { type Connection, CONNECTION_OPTIONS, Endpoint, HttpClient } from "./http.js";
import { HttpTransport } from "./http-transport.js";
import { type LogLevel, stderrLogger } from "./log.js";
import { checkOptions } from "./options.js";
import { Outbox } from "./outbox.js";
import { SocketTransport } from "./socket-transport.js";
import { endSession, RequestTooLarge, SessionGone, type Transport, type TransportListener } from "./transport.js";
import type { EventTrigger, Logger } from "./types.js";
import { warmUp } from "./warm-up.js";
import { UpgradeRefused } from "./websocket.js";
import type { Hello, NumberedMessage, Welcome } from "./wire.js";

/** A workflow that a worker serves: see `workflow`. */
export interface ServedWorkflow {
  readonly name: string;
  readonly version: number;
  readonly retentionDays?: number | undefined;
  readonly inputSchema?: Readonly<Record<string, unknown>> | undefined;
  readonly triggers?: readonly EventTrigger[] | undefined;
  readonly index?: readonly string[] | undefined;
  readonly run: (ctx: never, input: never) => unknown;
}

export interface WorkerOptions extends Connection {
  /** How many runs the worker executes at once, at most 10,000. Default: 100. */
  concurrency?: number;
  /** A name of the worker for people. Default: host name and process id. */
  worker?: string;
  /** `auto` uses the WebSocket, and HTTP if a proxy refuses it. */
  transport?: "auto" | "socket" | "http";
  /**
   * Receives the lines of `ctx.log` and those of the worker itself: failed attempts, failed and paused runs, lost
   * connections. Fields name the workflow, the run and the step; `stack` has line breaks. `false` for none.
   * Default: lines on standard error.
   */
  logger?: Logger | false;
  /** How long running steps may take to finish when the worker is stopped. Default: 10 s. */
  graceMs?: Duration;
  /** Stops the worker at SIGTERM and SIGINT. */
  handleSignals?: boolean;
}

export interface ServeOptions extends WorkerOptions {
  workflows: readonly ServedWorkflow[];
}

/** A running worker. */
export interface Worker {
  /** Resolves when the worker has a session; rejects if it stops before that. */
  readonly ready: Promise<void>;
  /** Resolves when the worker has stopped; rejects if the server refuses it. */
  readonly closed: Promise<void>;
  /** Accepts no more runs, lets running steps finish, and ends the session. */
  stop(): Promise<void>;
  /** The transport in use. */
  readonly transport: "socket" | "http";
  /** How many runs are at this worker now. */
  readonly running: number;
}

/** Serves workflows from this process. */
export function serve(options: ServeOptions): Worker {
  return new ServingWorker(options);
}

const SERVE_OPTIONS = { workflows: true, concurrency: true, worker: true, transport: true, logger: true, graceMs: true, handleSignals: true } as const;
const SDK_NAME = "typescript/0.1.0";
const CONCURRENCY_DEFAULT = 100;
/** Runs that a worker executes at once, and that it may continue in a new session. */
const RUNS_MAX = 10_000;
const GRACE_DEFAULT_MS = 10_000;
/** The longest delay that a timer of Node.js accepts. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** Connections of the HTTP transport: a poll, reports, and the end of the session. */
const CONNECTIONS_MAX = 4;
/** The lease until the server has sent its duration. */
const LEASE_DEFAULT_MS = 30_000;
const RECONNECT_FIRST_MS = 50;
const RECONNECT_MAX_MS = 5_000;
/** The server has ended the session and expects a new one. */
const RECONNECT_GONE_MS = 20;
/** The server or a proxy refuses a request: it is not repeated at once. */
const RECONNECT_REFUSED_MS = 1_000;
/** Whether a worker of this process has executed synthetic runs. */
let isWarm = false;

class ServingWorker implements Worker, RunsOwner, TransportListener {
  readonly ready: Promise<void>;
  readonly closed: Promise<void>;
  readonly workflows = new Map<string, Map<number, ServedWorkflow>>();
  private readonly logger: Logger | undefined;
  isStopping = false;
  leaseMs = LEASE_DEFAULT_MS;
  /** The number of the last message that was processed. */
  seen = 0;
  private readonly endpoint: Endpoint;
  private readonly http: HttpClient;
  private readonly hello: Omit<Hello, "holds">;
  private readonly graceMs: number;
  private readonly outbox = new Outbox(
    () => this.seen,
    (sentAt) => this.confirmed(sentAt),
  );
  private readonly runs = new ActiveRuns(this, this.outbox);
  /** The current transport, from the moment it is being opened. */
  private connection: Transport | undefined;
  private isOpen = false;
  private isClosed = false;
  private isHttp: boolean;
  private readonly mayFallBackToHttp: boolean;
  private session: string | undefined;
  /** The value of `seen` that the server has. */
  private seenSent = 0;
  /** Messages that arrived before one with a lower number. */
  private readonly early = new Map<number, NumberedMessage>();
  /** When the last request was sent that the server has received: the lease counts from here. */
  private leaseFrom = 0;
  private pingedAt: number | undefined;
  /** Failed connections in a row. */
  private failures = 0;
  private readonly timer: NodeJS.Timeout;
  private reconnect: NodeJS.Timeout | undefined;
  private resolveReady!: () => void;
  private rejectReady!: (error: Error) => void;
  private settleClosed!: (error?: Error) => void;
  private resolveDrained: (() => void) | undefined;
  // Not `stop`: errors are reported by `closed`, and a second rejected promise would have no handler.
  private readonly onSignal = (): void => this.drain();

  constructor(options: ServeOptions) {
    checkOptions(options, { ...SERVE_OPTIONS, ...CONNECTION_OPTIONS }, "a worker");
    const { workflows, concurrency = CONCURRENCY_DEFAULT, logger = stderrLogger, transport = "auto" } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > RUNS_MAX) {
      throw new TypeError(`concurrency is a whole number from 1 to ${RUNS_MAX}, not ${concurrency}`);
    }
    if (workflows.length === 0) throw new TypeError("a worker serves at least one workflow");
    if (transport !== "auto" && transport !== "socket" && transport !== "http") {
      throw new TypeError(`transport is "auto", "socket" or "http", not ${JSON.stringify(transport)}`);
    }
    for (const workflow of workflows) {
      const versions = this.workflows.get(workflow.name) ?? new Map<number, ServedWorkflow>();
      if (versions.has(workflow.version)) throw new TypeError(`workflow ${workflow.name} is listed twice in version ${workflow.version}`);
      this.workflows.set(workflow.name, versions.set(workflow.version, workflow));
    }
    this.endpoint = new Endpoint(options);
    this.http = new HttpClient(this.endpoint, CONNECTIONS_MAX);
    this.isHttp = transport === "http";
    this.mayFallBackToHttp = transport !== "socket";
    this.graceMs = Math.min(TIMER_MAX_MS, milliseconds(options.graceMs ?? GRACE_DEFAULT_MS, "graceMs"));
    this.logger = logger === false ? undefined : logger;
    this.hello = {
      protocol: 1,
      worker: options.worker ?? `${hostname()}:${process.pid}`,
      sdk: SDK_NAME,
      capacity: concurrency,
      workflows: workflows.map(({ name, version, retentionDays, inputSchema, triggers, index }) => ({
        name,
        version,
        ...(retentionDays !== undefined && { retentionDays }),
        ...(inputSchema !== undefined && { inputSchema }),
        ...(triggers !== undefined && triggers.length > 0 && { triggers }),
        ...(index !== undefined && index.length > 0 && { index }),
      })),
    };
    this.ready = new Promise((resolve, reject) => {
      this.resolveReady = resolve;
      this.rejectReady = reject;
    });
    // A program that does not await `ready` receives the same error from `closed`.
    this.ready.catch(() => {});
    this.closed = new Promise((resolve, reject) => {
      this.settleClosed = (error) => (error === undefined ? resolve() : reject(error));
    });
    if (options.handleSignals === true) {
      process.once("SIGTERM", this.onSignal);
      process.once("SIGINT", this.onSignal);
    }
    this.timer = setInterval(this.tick, TICK_MS);
    this.connect();
    // After the upgrade request is sent: the synthetic runs take the time until its response.
    if (!isWarm) setImmediate(() => void warmUp());
    isWarm = true;
  }

  get transport(): "socket" | "http" {
    return this.isHttp ? "http" : "socket";
  }

  get running(): number {
    return this.runs.count;
  }

  hasLease(): boolean {
    return performance.now() < this.leaseFrom + this.leaseMs;
  }

  writeLog(level: LogLevel, message: string, fields?: object): void {
    try {
      this.logger?.[level](message, ...(fields === undefined ? [] : [fields]));
    } catch {
      // A logger that throws must not fail a run.
    }
  }

  /** Logs a line about the worker itself. */
  private say(level: LogLevel, message: string): void {
    this.writeLog(level, `everstep: ${message}`);
  }

  // The end.

  async stop(): Promise<void> {
    this.drain();
    await this.closed;
  }

  private drain(): void {
    if (this.isStopping) return;
    this.isStopping = true;
    if (this.isOpen) this.connection?.setCapacity(0);
    const grace = new Promise<void>((resolve) => setTimeout(resolve, this.graceMs).unref());
    const drained = new Promise<void>((resolve) => {
      this.resolveDrained = resolve;
    });
    this.checkDrained();
    void Promise.race([drained, grace])
      .then(() => {
        // Before other workers get the runs: a step that is aborted here must not run beside its next attempt.
        this.runs.abort();
        return this.endSession();
      })
      .then(() => this.end());
  }

  checkDrained(): void {
    if (this.resolveDrained === undefined) return;
    if (!this.runs.isBusy && this.outbox.isEmpty) return this.resolveDrained();
    // A running step may take long. Runs that are due to start a step continue at other workers.
    this.runs.declineHeldBack();
  }

  /** Ends the session in order. Without a connection one request is tried: otherwise the runs would wait until the lease expires. */
  private async endSession(): Promise<void> {
    if (this.isOpen) await this.connection?.endSession();
    else if (this.session !== undefined) await endSession(this.http, this.session);
  }

  private end(error?: Error): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.isOpen = false;
    clearInterval(this.timer);
    clearTimeout(this.reconnect);
    this.connection?.close();
    this.outbox.close();
    this.http.close();
    process.removeListener("SIGTERM", this.onSignal);
    process.removeListener("SIGINT", this.onSignal);
    this.runs.abort();
    this.runs.clear();
    this.rejectReady(error ?? new Error("the worker was stopped before it had a session"));
    this.settleClosed(error);
  }

  // The session.

  private connect(): void {
    if (this.isClosed) return;
    const capacity = this.isStopping ? 0 : this.hello.capacity;
    this.connection = this.isHttp ? new HttpTransport(this.http, this, this.leaseMs) : new SocketTransport(this.endpoint, this);
    if (this.session !== undefined) {
      this.connection.open({ resume: { session: this.session, seen: this.seen, capacity } });
      return;
    }
    this.connection.open({ hello: { ...this.hello, capacity, holds: this.runs.holds(RUNS_MAX) } });
  }

  opened(welcome: Welcome | undefined, sentAt: number): void {
    this.isOpen = true;
    if (this.failures > 0) this.say("info", "the server can be reached again");
    this.failures = 0;
    if (welcome !== undefined) {
      this.leaseMs = welcome.leaseSeconds * 1_000;
      this.outbox.maxReports = welcome.maxReports;
      this.outbox.maxBytes = welcome.maxMessageBytes;
      this.outbox.features = welcome.features ?? [];
      if (welcome.session !== this.session) {
        this.session = welcome.session;
        this.seen = 0;
        this.early.clear();
        this.runs.expectConfirmation(performance.now() + this.leaseMs);
      }
    }
    this.seenSent = this.seen;
    this.outbox.sentAt = performance.now();
    this.confirmed(sentAt);
    this.resolveReady();
    this.outbox.open(this.connection as Transport);
  }

  received(message: NumberedMessage): void {
    if (message.m === this.seen + 1) this.process(message);
    else if (message.m > this.seen) this.early.set(message.m, message);
    for (let next = this.early.get(this.seen + 1); next !== undefined; next = this.early.get(this.seen + 1)) {
      this.early.delete(next.m);
      this.process(next);
    }
    if (this.isStopping) this.checkDrained();
  }

  private process(message: NumberedMessage): void {
    this.seen = message.m;
    this.runs.process(message);
  }

  confirmed(sentAt: number): void {
    this.pingedAt = undefined;
    if (sentAt > this.leaseFrom) this.leaseFrom = sentAt;
    this.runs.leaseRenewed();
  }

  reportsAnswered(): void {
    this.outbox.batchAnswered();
  }

  lost(error: Error): void {
    this.isOpen = false;
    this.connection = undefined;
    this.outbox.close();
    if (this.isClosed) return;
    let delayMs = Math.min(RECONNECT_MAX_MS, RECONNECT_FIRST_MS * 2 ** this.failures);
    if (error instanceof SessionGone) {
      this.session = undefined;
      delayMs = RECONNECT_GONE_MS;
    } else if (error instanceof UpgradeRefused && error.isPermanent && this.mayFallBackToHttp) {
      this.say("warn", `${error.message}: falling back to HTTP`);
      this.isHttp = true;
      delayMs = 0;
    } else if (error instanceof RequestTooLarge && this.outbox.shrink()) {
      const remedy = `raise the limit of the proxy to ${this.outbox.maxBytes} bytes (nginx: client_max_body_size)`;
      this.say("warn", `a proxy or the server refuses large requests (status 413); the worker sends smaller ones: ${error.detail}; ${remedy}`);
      delayMs = RECONNECT_FIRST_MS;
    } else if (error instanceof ApiError && isFinal(error.status, this.session === undefined)) {
      return this.end(error);
    } else if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
      // The cause is a proxy, or a report that was sent. Unanswered reports are sent again, but not at once.
      this.say("warn", `the server answers with status ${error.status}: ${described(error)}`);
      delayMs = Math.max(delayMs, RECONNECT_REFUSED_MS);
    } else if (this.failures === 0) {
      this.say("warn", `the server cannot be reached, the worker keeps trying: ${described(error)}`);
    }
    this.failures += 1;
    this.reconnect = setTimeout(() => this.connect(), delayMs * (0.5 + Math.random() / 2));
  }

  // Time.

  private readonly tick = (): void => {
    const now = performance.now();
    this.runs.checkStuckRuns();
    if (!this.isOpen || this.connection === undefined) return;
    this.runs.forgetUnconfirmed(now);
    this.outbox.tick(now);
    if (this.isStopping) this.checkDrained();
    if (this.pingedAt !== undefined && now - this.pingedAt > this.leaseMs / 3) {
      this.connection.close();
      return this.lost(new Error("it did not answer a ping"));
    }
    if (this.pingedAt === undefined && now - Math.min(this.outbox.sentAt, this.leaseFrom) > this.leaseMs / 3 && this.connection.ping()) {
      this.pingedAt = now;
      this.outbox.sentAt = now;
    }
    if (this.seen === this.seenSent) return;
    this.seenSent = this.seen;
    this.connection.sendSeen(this.seen);
  };
}

/** An error with its remedy. */
function described(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  return error.hint === undefined ? error.detail : `${error.detail} (${error.hint})`;
}

/** Whether another try cannot help: the key is not valid, or the server refuses the hello. */
function isFinal(status: number, isHello: boolean): boolean {
  return status === 401 || status === 403 || (isHello && (status === 400 || status === 409 || status === 422));
}
