// A proxy between workers and servers that injects network faults.
//
// Which server a request goes to: `first` is the first that accepts a connection, `alternate` is each in turn, or the
// next one that accepts a connection.
// What happens to reports, over either transport:
//   pass     they are forwarded
//   hold     they never reach the server
//   swallow  they reach the server, and from then on nothing of the server reaches the worker
//   double   they reach the server twice

import http from 'node:http';
import net from 'node:net';

const REPORTS_PATH = '/v1/worker/reports';

export class Proxy {
  reports = 'pass';
  /** How many requests or frames with reports were held, swallowed or doubled. */
  touched = 0;
  /** How many requests each server got. */
  passed;
  #ports;
  #kind;
  #next = 0;
  #isMute = false;
  #server;
  #agent = new http.Agent({ keepAlive: false });
  #sockets = new Set();

  /** `ports` are functions. */
  static async open(ports, kind) {
    const proxy = new Proxy();
    proxy.#ports = ports;
    proxy.#kind = kind;
    proxy.passed = ports.map(() => 0);
    const server = http.createServer((request, response) => {
      proxy.#pass(request, response).catch(() => response.destroy());
    });
    Object.assign(server, { requestTimeout: 0, headersTimeout: 0, timeout: 0 });
    server.on('connection', (socket) => {
      proxy.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('close', () => proxy.#sockets.delete(socket));
    });
    server.on('upgrade', (request, socket, head) => {
      proxy.#tunnel(request, socket, head).catch(() => socket.destroy());
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    proxy.#server = server;
    return proxy;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  /** Cuts all connections. */
  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  close() {
    this.#server.close();
    this.#server.closeAllConnections();
    this.cut();
  }

  /** The servers in the order of the tries. */
  #order() {
    const all = this.#ports.map((_, index) => index);
    if (this.#kind !== 'alternate') return all;
    const first = this.#next++ % all.length;
    return [...all.slice(first), ...all.slice(0, first)];
  }

  async #pass(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const fate = request.url.startsWith(REPORTS_PATH) ? this.reports : 'pass';
    if (fate !== 'pass') this.touched += 1;
    if (fate === 'hold') return;
    if (fate === 'swallow') this.#isMute = true;
    let answer = await this.#forward(request, body);
    if (this.#isMute) return;
    if (fate === 'double') {
      const second = await this.#forward(request, body);
      // The worker gets the first or the second response in turn, so either may be the lost one.
      if (this.touched % 2 === 0) answer = second;
    }
    response.writeHead(answer.status, answer.headers);
    response.end(answer.body);
  }

  async #forward(request, body) {
    for (const index of this.#order()) {
      try {
        const answer = await ask(this.#ports[index](), request, body, this.#agent);
        this.passed[index] += 1;
        return answer;
      } catch (error) {
        if (error.code !== 'ECONNREFUSED') throw error;
      }
    }
    throw new Error('no server can be connected to');
  }

  async #tunnel(request, client, head) {
    client.on('error', () => {});
    const server = await this.#connect();
    server.on('error', () => client.destroy());
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
    // The proxy reads the frames, so they must not be compressed.
    const headers = Object.entries(request.headers).filter(([name]) => name !== 'sec-websocket-extensions');
    const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    server.write(`${request.method} ${request.url} HTTP/1.1\r\n${lines}\r\n`);
    const frames = new Frames((frame, text) => {
      const fate = text.includes('"reports"') ? this.reports : 'pass';
      if (fate !== 'pass') this.touched += 1;
      if (fate === 'hold') return;
      if (fate === 'swallow') this.#isMute = true;
      server.write(frame);
      if (fate === 'double') server.write(frame);
    });
    frames.push(head);
    client.on('data', (chunk) => frames.push(chunk));
    server.on('data', (chunk) => {
      if (!this.#isMute) client.write(chunk);
    });
  }

  async #connect() {
    for (const index of this.#order()) {
      const socket = await connect(this.#ports[index]());
      if (!socket) continue;
      this.passed[index] += 1;
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      return socket;
    }
    throw new Error('no server can be connected to');
  }
}

function ask(port, { method, url, headers }, body, agent) {
  const options = { host: '127.0.0.1', port, method, path: url, agent, headers: { ...headers, connection: 'close' } };
  return new Promise((resolve, reject) => {
    const request = http.request(options, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const { connection: _, 'transfer-encoding': __, ...headers } = response.headers;
        resolve({ status: response.statusCode, headers, body: Buffer.concat(chunks) });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

function connect(port) {
  return new Promise((resolve) => {
    const socket = net.connect({ host: '127.0.0.1', port, noDelay: true });
    socket.once('connect', () => resolve(socket));
    socket.once('error', () => resolve(undefined));
  });
}

/** Splits the bytes of a client into WebSocket frames, and passes each on as bytes and as text. */
class Frames {
  #bytes = Buffer.alloc(0);
  #take;

  constructor(take) {
    this.#take = take;
  }

  push(chunk) {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    for (;;) {
      const size = frameSize(this.#bytes);
      if (size === undefined) return;
      const frame = this.#bytes.subarray(0, size.whole);
      this.#bytes = this.#bytes.subarray(size.whole);
      this.#take(frame, unmask(frame, size));
    }
  }
}

/** The length of the first frame and where its payload begins; undefined while it is incomplete. */
function frameSize(bytes) {
  if (bytes.length < 2) return undefined;
  const short = bytes[1] & 0x7f;
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
  const isMasked = (bytes[1] & 0x80) !== 0;
  const begin = 2 + extra + (isMasked ? 4 : 0);
  if (bytes.length < begin) return undefined;
  const length = extra === 2 ? bytes.readUInt16BE(2) : extra === 8 ? Number(bytes.readBigUInt64BE(2)) : short;
  const whole = begin + length;
  return bytes.length < whole ? undefined : { begin, whole, isMasked };
}

function unmask(frame, { begin, whole, isMasked }) {
  const payload = Buffer.from(frame.subarray(begin, whole));
  if (isMasked) {
    const mask = frame.subarray(begin - 4, begin);
    for (let index = 0; index < payload.length; index++) payload[index] ^= mask[index & 3];
  }
  return payload.toString('utf8');
}
