// HTTP/1.1 on one connection, one request at a time. It does little, so that the client is not what is measured: fetch and
// node:http need several times as much processor time for a request.

import net from 'node:net';

export class HttpConnection {
  #socket;
  #host;
  #buffer = Buffer.alloc(0);
  #waiting;
  #failure;

  static open(port) {
    return new Promise((resolve, reject) => {
      const connection = new HttpConnection();
      const socket = net.connect({ host: '127.0.0.1', port, noDelay: true });
      connection.#socket = socket;
      connection.#host = `127.0.0.1:${port}`;
      socket.once('connect', () => resolve(connection));
      socket.on('error', (error) => {
        reject(error);
        connection.#fail(error);
      });
      socket.on('close', () => connection.#fail(new Error('the connection was closed')));
      socket.on('data', (chunk) => connection.#receive(chunk));
    });
  }

  /** Sends a request with a JSON body, and returns the status and the text of the response. */
  request(method, path, body, headers = '') {
    if (this.#waiting) throw new Error('a request is in progress');
    if (this.#failure) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      const entity = body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`;
      this.#socket.write(`${method} ${path} HTTP/1.1\r\nhost: ${this.#host}\r\n${headers}${entity}\r\n${body ?? ''}`);
    });
  }

  close() {
    this.#socket.destroy();
  }

  #fail(error) {
    this.#failure ??= error;
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }

  #receive(chunk) {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    let response;
    try {
      response = readResponse(this.#buffer);
    } catch (error) {
      return this.#fail(error);
    }
    if (response === undefined) return;
    this.#buffer = this.#buffer.subarray(response.end);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve({ status: response.status, text: response.text });
  }
}

/** The response at the beginning of the bytes; undefined while it is incomplete. */
function readResponse(bytes) {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = bytes.toString('latin1', 0, headEnd);
  const status = Number(head.slice(9, 12));
  const start = headEnd + 4;
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  if (length) {
    const end = start + Number(length[1]);
    return bytes.length < end ? undefined : { status, text: bytes.toString('utf8', start, end), end };
  }
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return { status, text: '', end: start };
  const parts = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error('a chunk has no size');
    const end = lineEnd + 2 + size + 2;
    if (bytes.length < end) return undefined;
    if (size === 0) return { status, text: Buffer.concat(parts).toString('utf8'), end };
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = end;
  }
}
