// A WebSocket client (RFC 6455) over node:http: text messages, fragments, ping, pong and close. No extensions.

import { createHash, randomBytes, randomFillSync } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Endpoint } from "./http.js";

export interface Events {
  text(text: string): void;
  /** Called once; nothing follows. */
  closed(code: number, reason: string): void;
}

/** The response to the upgrade request is not a WebSocket. */
export class UpgradeRefused extends Error {
  constructor(
    readonly status: number,
    readonly contentType: string,
    readonly body: string,
  ) {
    super(`the upgrade to a WebSocket was answered with status ${status}`);
  }

  /** Whether the cause is permanent (a proxy without WebSockets), not a server that is unavailable now. */
  get isPermanent(): boolean {
    return this.status === 501 || (this.status < 500 && this.status !== 408 && this.status !== 425 && this.status !== 429);
  }
}

const CLOSE_TIMEOUT_MS = 1_000;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Opens a WebSocket. Rejects with `UpgradeRefused` if the response is not a WebSocket. */
export function connect(endpoint: Endpoint, path: string, events: Events, options: { timeoutMs: number; maxBytes: number }): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const key = randomBytes(16).toString("base64");
    const request = endpoint.request({
      ...endpoint.options("GET", path),
      agent: false,
      timeout: options.timeoutMs,
      headers: {
        ...endpoint.headers,
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
      },
    });
    request.on("error", reject);
    request.on("timeout", () => request.destroy(new Error(`the upgrade took longer than ${options.timeoutMs} ms`)));
    request.on("response", (response) => refuse(response, reject));
    request.on("upgrade", (response, socket: Socket, head) => {
      const expected = createHash("sha1").update(key + GUID).digest("base64");
      if (response.headers["sec-websocket-accept"] !== expected) {
        socket.destroy();
        return reject(new UpgradeRefused(101, "", "the response does not belong to this upgrade request"));
      }
      socket.setTimeout(0);
      socket.setNoDelay(true);
      const opened = new WebSocket(socket, events, options.maxBytes);
      resolve(opened);
      if (head.length > 0) opened.receive(head);
    });
    request.end();
  });
}

function refuse(response: IncomingMessage, reject: (error: Error) => void): void {
  const chunks: Buffer[] = [];
  response.on("data", (chunk: Buffer) => chunks.push(chunk));
  response.on("error", reject);
  response.on("end", () => {
    const contentType = response.headers["content-type"] ?? "";
    reject(new UpgradeRefused(response.statusCode ?? 0, contentType, Buffer.concat(chunks).toString("utf8")));
  });
}

export class WebSocket {
  private isClosed = false;
  private isClosing = false;
  /** Bytes of an incomplete frame, their number, and the number that is needed to read on. */
  private chunks: Buffer[] = [];
  private bytesReceived = 0;
  private bytesNeeded = 2;
  private fragments: Buffer[] = [];
  private fragmentBytes = 0;

  constructor(
    private readonly socket: Socket,
    private readonly events: Events,
    private readonly maxBytes: number,
  ) {
    socket.on("data", (chunk: Buffer) => this.receive(chunk));
    socket.on("error", (error) => this.end(1006, error.message));
    socket.on("close", () => this.end(1006, "the connection was lost"));
    socket.on("end", () => this.end(1006, "the connection was ended"));
  }

  send(text: string): void {
    if (!this.isClosed && !this.isClosing) this.socket.write(textFrame(text));
  }

  /** Sends a close frame and waits up to a second for the other side. */
  close(code = 1000): void {
    if (this.isClosed || this.isClosing) return;
    this.isClosing = true;
    this.socket.end(frame(CLOSE, String.fromCharCode(code >> 8, code & 255)));
    const timer = setTimeout(() => this.end(1006, "the other side did not close"), CLOSE_TIMEOUT_MS);
    this.socket.once("close", () => clearTimeout(timer));
  }

  /** Processes bytes of the connection. */
  receive(chunk: Buffer): void {
    if (this.isClosed) return;
    let bytes = chunk;
    if (this.chunks.length > 0) {
      this.chunks.push(chunk);
      this.bytesReceived += chunk.length;
      if (this.bytesReceived < this.bytesNeeded) return;
      bytes = Buffer.concat(this.chunks);
      this.chunks = [];
    }
    let at = 0;
    while (!this.isClosed) {
      const used = this.read(bytes, at);
      if (used === 0) break;
      at += used;
    }
    if (at < bytes.length && !this.isClosed) {
      this.chunks.push(bytes.subarray(at));
      this.bytesReceived = bytes.length - at;
    }
  }

  /** Reads one frame. Returns its length, or 0 if it is incomplete. */
  private read(bytes: Buffer, at: number): number {
    const available = bytes.length - at;
    this.bytesNeeded = 2;
    if (available < 2) return 0;
    const first = bytes[at] as number;
    const second = bytes[at + 1] as number;
    const opcode = first & 0x0f;
    let length = second & 0x7f;
    let header = 2;
    if (length === 126) {
      header = 4;
      this.bytesNeeded = 4;
      if (available < 4) return 0;
      length = bytes.readUInt16BE(at + 2);
    } else if (length === 127) {
      header = 10;
      this.bytesNeeded = 10;
      if (available < 10) return 0;
      length = bytes.readUInt32BE(at + 2) * 2 ** 32 + bytes.readUInt32BE(at + 6);
    }
    if ((first & 0x70) !== 0) return this.fail(1002, "a frame uses an extension that was not agreed on");
    if ((second & 0x80) !== 0) return this.fail(1002, "a server's frames are not masked");
    if (opcode >= CLOSE && (length > 125 || (first & 0x80) === 0)) return this.fail(1002, "a control frame is too long or in pieces");
    if (length + this.fragmentBytes > this.maxBytes) return this.fail(1009, `a message has more than ${this.maxBytes} bytes`);
    this.bytesNeeded = header + length;
    if (available < this.bytesNeeded) return 0;
    this.receiveFrame(opcode, (first & 0x80) !== 0, bytes.subarray(at + header, at + header + length));
    return header + length;
  }

  private receiveFrame(opcode: number, isLast: boolean, payload: Buffer): void {
    switch (opcode) {
      case TEXT:
        if (this.fragments.length > 0) return void this.fail(1002, "a message begins inside another");
        if (isLast) return this.events.text(payload.toString("utf8"));
        this.fragments.push(payload);
        this.fragmentBytes = payload.length;
        return;
      case CONTINUATION: {
        if (this.fragments.length === 0) return void this.fail(1002, "a continuation frame without a message");
        this.fragments.push(payload);
        this.fragmentBytes += payload.length;
        if (!isLast) return;
        const whole = Buffer.concat(this.fragments);
        this.fragments = [];
        this.fragmentBytes = 0;
        return this.events.text(whole.toString("utf8"));
      }
      case PING:
        this.socket.write(frame(PONG, payload.toString("latin1")));
        return;
      case PONG:
        return;
      case CLOSE: {
        const code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
        const reason = payload.subarray(2).toString("utf8");
        if (!this.isClosing) this.socket.end(frame(CLOSE, payload.subarray(0, 2).toString("latin1")));
        return this.end(code, reason);
      }
      default:
        return void this.fail(opcode === BINARY ? 1003 : 1002, `a frame has the unknown opcode ${opcode}`);
    }
  }

  private fail(code: number, reason: string): number {
    if (!this.isClosing) this.socket.end(frame(CLOSE, String.fromCharCode(code >> 8, code & 255)));
    this.end(code, reason);
    return 0;
  }

  private end(code: number, reason: string): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.socket.destroySoon();
    this.events.closed(code, reason);
  }
}

const masks = Buffer.alloc(4_096);
let nextMask = masks.length;

/** A message as a frame. */
export function textFrame(text: string): Buffer {
  return frame(TEXT, text);
}

/** A masked frame in one piece. Control frames carry bytes (latin1), text frames text. */
export function frame(opcode: number, text: string): Buffer {
  const encoding = opcode === TEXT ? "utf8" : "latin1";
  const length = Buffer.byteLength(text, encoding);
  const header = length < 126 ? 6 : length < 65_536 ? 8 : 14;
  // The payload begins at a multiple of four, so that it can be masked four bytes at a time.
  const padding = header === 8 ? 0 : 2;
  const start = padding + header;
  const buffer = Buffer.allocUnsafeSlow(start + ((length + 3) & ~3));
  buffer[padding] = 0x80 | opcode;
  if (header === 6) {
    buffer[padding + 1] = 0x80 | length;
  } else if (header === 8) {
    buffer[padding + 1] = 0x80 | 126;
    buffer.writeUInt16BE(length, padding + 2);
  } else {
    buffer[padding + 1] = 0x80 | 127;
    buffer.writeUInt32BE(Math.floor(length / 2 ** 32), padding + 2);
    buffer.writeUInt32BE(length >>> 0, padding + 6);
  }
  if (nextMask === masks.length) {
    randomFillSync(masks);
    nextMask = 0;
  }
  masks.copy(buffer, start - 4, nextMask, nextMask + 4);
  nextMask += 4;
  buffer.write(text, start, length, encoding);
  const words = new Int32Array(buffer.buffer, buffer.byteOffset + start - 4);
  const mask = words[0] as number;
  for (let i = 1; i < words.length; i++) words[i] = (words[i] as number) ^ mask;
  return buffer.subarray(padding, start + length);
}
