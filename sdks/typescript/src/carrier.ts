// How messages travel between a worker and the server: over a WebSocket, or by HTTP requests. Both say the same.

import { ApiError } from "./errors.js";
import { type Address, type Answer, Http, problem, problemOf } from "./http.js";
import type { Hello, Message, Welcome } from "./wire.js";
import { connect, Refused, type WebSocket } from "./websocket.js";

/** The session has ended: the worker opens a new one. */
export class Gone extends Error {}

/** A message with reports is larger than somebody on the way takes. */
export class TooLarge extends ApiError {}

/** Whoever a carrier carries for. After `lost` it hears nothing more. */
export interface Sink {
  /** The last message that was taken of all that came without a gap. */
  readonly seen: number;
  /** The session is there; undefined when an older one goes on. */
  opened(welcome: Welcome | undefined, sentAt: number): void;
  message(message: Message): void;
  /** The server has heard what was sent at this time. */
  heard(sentAt: number): void;
  /** A request with reports was answered. */
  answered(): void;
  lost(error: Error): void;
}

export type Greeting = { hello: Hello } | { resume: { session: string; seen: number; capacity: number } };

export interface Carrier {
  begin(greeting: Greeting): void;
  /** Whether reports must wait. */
  readonly isBusy: boolean;
  /** Sends reports, which are JSON texts with commas between them. */
  send(seen: number, reports: string): void;
  saw(seen: number): void;
  /** Asks for a sign of life. False if something else always does. */
  ping(): boolean;
  capacity(capacity: number): void;
  /** Leaves in order. */
  leave(): Promise<void>;
  /** Drops the connection. */
  close(): void;
}

/** Bytes of a message from the server: a turn may bring a long journal. */
const MOST = 256 * 1024 * 1024;
const OPENING = 10_000;
const REPORTS_PATH = "/v1/worker/reports";

export class SocketCarrier implements Carrier {
  readonly isBusy = false;
  private socket: WebSocket | undefined;
  private isOpen = false;
  private isDone = false;
  private pings: number[] = [];
  private began = 0;
  private timer: NodeJS.Timeout | undefined;
  private left: (() => void) | undefined;

  constructor(
    private readonly address: Address,
    private readonly sink: Sink,
  ) {}

  begin(greeting: Greeting): void {
    this.began = performance.now();
    const events = { text: (text: string) => this.text(text), closed: (code: number, reason: string) => this.closed(code, reason) };
    connect(this.address, "/v1/worker/socket", events, { timeoutMs: OPENING, maxBytes: MOST }).then(
      (socket) => {
        if (this.isDone) return socket.close();
        this.socket = socket;
        socket.send(JSON.stringify(greeting));
        this.timer = setTimeout(() => this.lose(new Error("the server did not answer the greeting")), OPENING);
      },
      (error: Error) => this.lose(explain(error)),
    );
  }

  send(seen: number, reports: string): void {
    this.socket?.send(`{"seen":${seen},"reports":[${reports}]}`);
  }

  saw(seen: number): void {
    this.socket?.send(`{"seen":${seen}}`);
  }

  ping(): boolean {
    this.pings.push(performance.now());
    this.socket?.send('{"ping":true}');
    return true;
  }

  capacity(capacity: number): void {
    this.socket?.send(`{"capacity":${capacity}}`);
  }

  leave(): Promise<void> {
    this.isDone = true;
    this.socket?.send('{"bye":true}');
    return new Promise((resolve) => {
      this.left = resolve;
      if (this.socket === undefined) resolve();
      else this.socket.close();
    });
  }

  close(): void {
    this.isDone = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  private text(text: string): void {
    if (this.isDone) return;
    try {
      this.hear(parse(text));
    } catch (error) {
      this.lose(error as Error);
    }
  }

  private hear(said: Message & { pong?: true; welcome?: Welcome; gone?: { detail: string }; problem?: { code: string; status?: number } }): void {
    if (said.m !== undefined) return this.sink.message(said);
    if (said.pong !== undefined) {
      const at = this.pings.shift();
      if (at !== undefined) this.sink.heard(at);
    } else if (said.welcome !== undefined && !this.isOpen) {
      this.isOpen = true;
      clearTimeout(this.timer);
      this.sink.opened(said.welcome, this.began);
    } else if (said.gone !== undefined) {
      this.lose(new Gone(said.gone.detail));
    } else if (said.problem !== undefined) {
      this.lose(problem(400, said.problem));
    }
  }

  private closed(code: number, reason: string): void {
    this.left?.();
    const why = `the socket was closed (${code}${reason === "" ? "" : `: ${reason}`})`;
    this.lose(code === 4410 ? new Gone(why) : new Error(why));
  }

  private lose(error: Error): void {
    if (this.isDone) return;
    this.close();
    this.sink.lost(error);
  }
}

/** What a refused upgrade means: a problem of the server's, or somebody in between who cannot do it. */
function explain(error: Error): Error {
  if (!(error instanceof Refused)) return error;
  // 426 is the server's own word for a proxy that has taken the upgrade out of the request.
  const isProblem = error.contentType.includes("problem+json") && error.status !== 426;
  if (isProblem || error.status === 401 || error.status === 403) return problemOf(error.status, error.body);
  return error;
}

export class HttpCarrier implements Carrier {
  isBusy = false;
  private isDone = false;
  private session = "";
  private takes: number | undefined;
  private poll: AbortController | undefined;

  constructor(
    private readonly http: Http,
    private readonly sink: Sink,
    private leaseMs: number,
  ) {}

  begin(greeting: Greeting): void {
    const sentAt = performance.now();
    if ("resume" in greeting) {
      this.session = greeting.resume.session;
      this.takes = greeting.resume.capacity;
      this.ask("/v1/worker/poll", this.question(0), OPENING, (answer) => {
        const messages = messagesOf(answer);
        this.sink.opened(undefined, sentAt);
        this.take(messages, sentAt);
        void this.polling();
      });
      return;
    }
    this.ask("/v1/worker/sessions", JSON.stringify(greeting.hello), OPENING, (answer) => {
      const welcome = parse<Welcome>(answer.text);
      if (typeof welcome.session !== "string") throw new Error("the server has answered with what is no session");
      this.session = welcome.session;
      this.leaseMs = welcome.leaseSeconds * 1_000;
      this.sink.opened(welcome, sentAt);
      void this.polling();
    });
  }

  send(seen: number, reports: string): void {
    this.isBusy = true;
    const sentAt = performance.now();
    const body = `{"session":"${this.session}","seen":${seen},"reports":[${reports}]}`;
    this.ask(REPORTS_PATH, body, 60_000, (answer) => {
      this.isBusy = false;
      this.take(messagesOf(answer), sentAt);
      if (!this.isDone) this.sink.answered();
    });
  }

  /** Every request says it. */
  saw(): void {}

  ping(): boolean {
    return false;
  }

  capacity(capacity: number): void {
    this.takes = capacity;
    this.poll?.abort();
  }

  async leave(): Promise<void> {
    this.close();
    await leave(this.http, this.session);
  }

  close(): void {
    this.isDone = true;
    this.poll?.abort();
  }

  private async polling(): Promise<void> {
    while (!this.isDone) {
      const sentAt = performance.now();
      const poll = new AbortController();
      this.poll = poll;
      const waitMs = Math.min(10_000, Math.floor(this.leaseMs / 3));
      const take = (answer: Answer) => this.take(messagesOf(answer), sentAt);
      await this.ask("/v1/worker/poll", this.question(waitMs), waitMs + OPENING, take, poll.signal);
    }
  }

  private question(waitMs: number): string {
    const capacity = this.takes === undefined ? "" : `,"capacity":${this.takes}`;
    return `{"session":"${this.session}","seen":${this.sink.seen}${capacity},"waitMs":${waitMs}}`;
  }

  private take(messages: Message[], sentAt: number): void {
    this.sink.heard(sentAt);
    for (const message of messages) if (!this.isDone) this.sink.message(message);
  }

  /** Asks, and takes the answer unless the carrier was given up meanwhile. Whatever goes wrong, the carrier is lost. */
  private async ask(path: string, body: string, timeoutMs: number, take: (answer: Answer) => void, signal?: AbortSignal): Promise<void> {
    try {
      const answer = await this.http.send("POST", path, body, { timeoutMs, ...(signal === undefined ? {} : { signal }) });
      if (this.isDone) return;
      if (answer.status === 200 || answer.status === 201) return take(answer);
      const found = problemOf(answer.status, answer.text);
      if (answer.status === 410) this.lose(new Gone(found.detail));
      else if (answer.status === 413 && path === REPORTS_PATH) this.lose(new TooLarge(413, found.code, found.detail));
      else this.lose(found);
    } catch (error) {
      if (signal?.aborted === true) return;
      this.lose(error instanceof Error ? error : new ApiError(0, "NO_ANSWER", String(error)));
    }
  }

  private lose(error: Error): void {
    if (this.isDone) return;
    this.close();
    this.sink.lost(error);
  }
}

/** Ends a session in order, whatever carried it. */
export async function leave(http: Http, session: string): Promise<void> {
  await http.send("DELETE", `/v1/worker/sessions/${session}`, undefined, { timeoutMs: 5_000 }).catch(() => undefined);
}

function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Error("the server has answered with what is not JSON");
  }
}

function messagesOf(answer: Answer): Message[] {
  const { messages } = parse<{ messages?: Message[] }>(answer.text);
  if (!Array.isArray(messages)) throw new Error("the server has answered with what is no list of messages");
  return messages;
}

export { Refused };
