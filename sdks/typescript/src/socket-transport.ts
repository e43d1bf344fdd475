// The worker protocol over a WebSocket.

import { type Endpoint, noAnswer, problemFromBody, problemFromDocument } from "./http.js";
import { OPEN_TIMEOUT_MS, type Opening, parse, SessionGone, type Transport, type TransportListener } from "./transport.js";
import type { NumberedMessage, Welcome } from "./wire.js";
import { connect, UpgradeRefused, type WebSocket } from "./websocket.js";

const SOCKET_PATH = "/v1/worker/socket";
/** Bytes of a message from the server: a turn may contain a long journal. */
const MESSAGE_BYTES_MAX = 256 * 1024 * 1024;
/** The server closes a socket with this code when its session has ended. */
const CLOSE_GONE = 4410;

interface Frame extends NumberedMessage {
  pong?: true;
  welcome?: Welcome;
  gone?: { detail: string };
  problem?: { code: string; status?: number };
}

export class SocketTransport implements Transport {
  readonly isBusy = false;
  private socket: WebSocket | undefined;
  private isOpen = false;
  private isDone = false;
  /** When each ping was sent that has no pong yet. */
  private pings: number[] = [];
  private openedAt = 0;
  private timer: NodeJS.Timeout | undefined;
  private onClosed: (() => void) | undefined;

  constructor(
    private readonly endpoint: Endpoint,
    private readonly listener: TransportListener,
  ) {}

  open(opening: Opening): void {
    this.openedAt = performance.now();
    const events = { text: (text: string) => this.text(text), closed: (code: number, reason: string) => this.closed(code, reason) };
    connect(this.endpoint, SOCKET_PATH, events, { timeoutMs: OPEN_TIMEOUT_MS, maxBytes: MESSAGE_BYTES_MAX }).then(
      (socket) => {
        if (this.isDone) return socket.close();
        this.socket = socket;
        socket.send(JSON.stringify(opening));
        this.timer = setTimeout(() => this.lose(new Error("the server did not answer the first frame in time")), OPEN_TIMEOUT_MS);
      },
      (error: Error) => this.lose(explain(error, this.endpoint)),
    );
  }

  send(seen: number, reports: string): void {
    this.socket?.send(`{"seen":${seen},"reports":[${reports}]}`);
  }

  sendSeen(seen: number): void {
    this.socket?.send(`{"seen":${seen}}`);
  }

  ping(): boolean {
    this.pings.push(performance.now());
    this.socket?.send('{"ping":true}');
    return true;
  }

  setCapacity(capacity: number): void {
    this.socket?.send(`{"capacity":${capacity}}`);
  }

  endSession(): Promise<void> {
    this.isDone = true;
    this.socket?.send('{"bye":true}');
    return new Promise((resolve) => {
      this.onClosed = resolve;
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
      this.receive(parse(text));
    } catch (error) {
      this.lose(error as Error);
    }
  }

  private receive(frame: Frame): void {
    if (frame.m !== undefined) return this.listener.received(frame);
    if (frame.pong !== undefined) {
      const sentAt = this.pings.shift();
      if (sentAt !== undefined) this.listener.confirmed(sentAt);
    } else if (frame.welcome !== undefined && !this.isOpen) {
      this.isOpen = true;
      clearTimeout(this.timer);
      this.listener.opened(frame.welcome, this.openedAt);
    } else if (frame.gone !== undefined) {
      this.lose(new SessionGone(frame.gone.detail));
    } else if (frame.problem !== undefined) {
      this.lose(problemFromDocument(400, frame.problem));
    }
  }

  private closed(code: number, reason: string): void {
    this.onClosed?.();
    const why = `the socket was closed (${code}${reason === "" ? "" : `: ${reason}`})`;
    this.lose(code === CLOSE_GONE ? new SessionGone(why) : new Error(why));
  }

  private lose(error: Error): void {
    if (this.isDone) return;
    this.close();
    this.listener.lost(error);
  }
}

/** The cause of a failed upgrade: no connection, a problem document of the server, or a proxy that does not support WebSockets. */
function explain(error: Error, endpoint: Endpoint): Error {
  if (!(error instanceof UpgradeRefused)) return noAnswer(endpoint, `GET ${SOCKET_PATH}`, error);
  // The server answers 426 when a proxy has removed the upgrade headers from the request.
  const isProblem = error.contentType.includes("problem+json") && error.status !== 426;
  if (isProblem || error.status === 401 || error.status === 403) return problemFromBody(error.status, error.body);
  return error;
}
