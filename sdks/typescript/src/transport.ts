// The connection of a worker to the server: a WebSocket (`socket-transport.ts`) or HTTP requests (`http-transport.ts`).
// Both carry the same protocol.

import { ApiError } from "./errors.js";
import type { HttpClient } from "./http.js";
import type { Hello, NumberedMessage, Welcome } from "./wire.js";

/** Milliseconds that the server may take to open or resume a session. */
export const OPEN_TIMEOUT_MS = 10_000;
/** Milliseconds that the server may take to end a session. */
const CLOSE_TIMEOUT_MS = 5_000;

/** The session has ended: the worker opens a new one. */
export class SessionGone extends Error {}

/** The server, or a proxy before it, refuses a request with reports because of its size. */
export class RequestTooLarge extends ApiError {}

/** The worker, as its transport sees it. After `lost` a transport calls nothing more. */
export interface TransportListener {
  /** The number of the last message that was processed without a gap. */
  readonly seen: number;
  /** The session is open. `welcome` is undefined when an earlier session was resumed over HTTP. */
  opened(welcome: Welcome | undefined, sentAt: number): void;
  received(message: NumberedMessage): void;
  /** The server has received everything that was sent at this time. */
  confirmed(sentAt: number): void;
  /** A request with reports was answered. */
  reportsAnswered(): void;
  lost(error: Error): void;
}

/** How a transport begins: with a new session, or with one that it resumes. */
export type Opening = { hello: Hello } | { resume: { session: string; seen: number; capacity: number } };

export interface Transport {
  open(opening: Opening): void;
  /** Whether reports must wait until an earlier request is answered. */
  readonly isBusy: boolean;
  /** Sends reports: JSON texts separated by commas. */
  send(seen: number, reports: string): void;
  sendSeen(seen: number): void;
  /** Asks the server for an answer, which renews the lease. False if the transport always has a request in progress that does so. */
  ping(): boolean;
  setCapacity(capacity: number): void;
  /** Ends the session in order. */
  endSession(): Promise<void>;
  /** Drops the connection. The session stays open. */
  close(): void;
}

/** Ends a session in order by an HTTP request, whichever transport it used. */
export async function endSession(http: HttpClient, session: string): Promise<void> {
  await http.send("DELETE", `/v1/worker/sessions/${session}`, undefined, { timeoutMs: CLOSE_TIMEOUT_MS }).catch(() => undefined);
}

export function parse<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Error("the answer of the server is not JSON");
  }
}
