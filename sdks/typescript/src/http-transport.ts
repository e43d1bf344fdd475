// The worker protocol over HTTP requests: one poll is always in progress, and reports are sent in requests of their own.

import { ApiError } from "./errors.js";
import { type HttpClient, type HttpResponse, problemFromBody } from "./http.js";
import { endSession, OPEN_TIMEOUT_MS, type Opening, parse, RequestTooLarge, SessionGone, type Transport, type TransportListener } from "./transport.js";
import type { NumberedMessage, Welcome } from "./wire.js";

const SESSIONS_PATH = "/v1/worker/sessions";
const POLL_PATH = "/v1/worker/poll";
const REPORTS_PATH = "/v1/worker/reports";
/** Milliseconds that the server may take to write reports to the journal. */
const REPORTS_TIMEOUT_MS = 60_000;
/** Milliseconds that the server may hold a poll. */
const POLL_WAIT_MAX_MS = 10_000;

export class HttpTransport implements Transport {
  isBusy = false;
  private isDone = false;
  private session = "";
  private capacity: number | undefined;
  private poll: AbortController | undefined;

  constructor(
    private readonly http: HttpClient,
    private readonly listener: TransportListener,
    private leaseMs: number,
  ) {}

  open(opening: Opening): void {
    const sentAt = performance.now();
    if ("resume" in opening) {
      this.session = opening.resume.session;
      this.capacity = opening.resume.capacity;
      this.request(POLL_PATH, this.pollBody(0), OPEN_TIMEOUT_MS, (response) => {
        const messages = messagesOf(response);
        this.listener.opened(undefined, sentAt);
        this.receive(messages, sentAt);
        void this.keepPolling();
      });
      return;
    }
    this.request(SESSIONS_PATH, JSON.stringify(opening.hello), OPEN_TIMEOUT_MS, (response) => {
      const welcome = parse<Welcome>(response.text);
      if (typeof welcome.session !== "string") throw new Error("the response of the server has no session");
      this.session = welcome.session;
      this.leaseMs = welcome.leaseSeconds * 1_000;
      this.listener.opened(welcome, sentAt);
      void this.keepPolling();
    });
  }

  send(seen: number, reports: string): void {
    this.isBusy = true;
    const sentAt = performance.now();
    const body = `{"session":"${this.session}","seen":${seen},"reports":[${reports}]}`;
    this.request(REPORTS_PATH, body, REPORTS_TIMEOUT_MS, (response) => {
      this.isBusy = false;
      this.receive(messagesOf(response), sentAt);
      if (!this.isDone) this.listener.reportsAnswered();
    });
  }

  /** Every request contains `seen`. */
  sendSeen(): void {}

  ping(): boolean {
    return false;
  }

  setCapacity(capacity: number): void {
    this.capacity = capacity;
    this.poll?.abort();
  }

  async endSession(): Promise<void> {
    this.close();
    await endSession(this.http, this.session);
  }

  close(): void {
    this.isDone = true;
    this.poll?.abort();
  }

  private async keepPolling(): Promise<void> {
    while (!this.isDone) {
      const sentAt = performance.now();
      const poll = new AbortController();
      this.poll = poll;
      const waitMs = Math.min(POLL_WAIT_MAX_MS, Math.floor(this.leaseMs / 3));
      const receive = (response: HttpResponse) => this.receive(messagesOf(response), sentAt);
      await this.request(POLL_PATH, this.pollBody(waitMs), waitMs + OPEN_TIMEOUT_MS, receive, poll.signal);
    }
  }

  private pollBody(waitMs: number): string {
    const capacity = this.capacity === undefined ? "" : `,"capacity":${this.capacity}`;
    return `{"session":"${this.session}","seen":${this.listener.seen}${capacity},"waitMs":${waitMs}}`;
  }

  private receive(messages: NumberedMessage[], sentAt: number): void {
    this.listener.confirmed(sentAt);
    for (const message of messages) if (!this.isDone) this.listener.received(message);
  }

  /** Sends a request and processes the response, unless the transport was closed in the meantime. Any error loses the transport. */
  private async request(
    path: string,
    body: string,
    timeoutMs: number,
    receive: (response: HttpResponse) => void,
    signal?: AbortSignal,
  ): Promise<void> {
    try {
      const response = await this.http.send("POST", path, body, { timeoutMs, ...(signal === undefined ? {} : { signal }) });
      if (this.isDone) return;
      if (response.status === 200 || response.status === 201) return receive(response);
      const problem = problemFromBody(response.status, response.text);
      if (response.status === 410) this.lose(new SessionGone(problem.detail));
      else if (response.status === 413 && path === REPORTS_PATH) this.lose(new RequestTooLarge(413, problem.code, problem.detail, problem.hint));
      else this.lose(problem);
    } catch (error) {
      if (signal?.aborted === true) return;
      this.lose(error instanceof Error ? error : new ApiError(0, "NO_ANSWER", String(error)));
    }
  }

  private lose(error: Error): void {
    if (this.isDone) return;
    this.close();
    this.listener.lost(error);
  }
}

function messagesOf(response: HttpResponse): NumberedMessage[] {
  const { messages } = parse<{ messages?: NumberedMessage[] }>(response.text);
  if (!Array.isArray(messages)) throw new Error("the response of the server has no list of messages");
  return messages;
}
