// A small server of the worker protocol for the tests of the SDK: sessions, both transports, a journal per run.
// The conformance suite tests the rest (storage, parking, leases) with the real server.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { RunTrigger } from "../src/types.js";
import type { Hello, StepRecord, NumberedMessage, Turn, Wake } from "../src/wire.js";

export interface SentReport {
  n: number;
  run: string;
  turn: number;
  kind: string;
  step?: string;
  attempt?: number;
  output?: unknown;
  error?: { code?: string; message: string; retryable?: boolean };
  retry?: { attempts: number };
  forMs?: number;
  untilMs?: number;
  event?: string;
  match?: Record<string, unknown>;
  timeoutMs?: number;
  workflow?: string;
  input?: unknown;
  seq?: number;
  logs?: string[];
  unawaited?: string[];
  topic?: string;
  data?: unknown;
  since?: unknown;
}

interface Session {
  id: string;
  hello: Hello;
  last: number;
  sent: NumberedMessage[];
  waiting: (() => void) | undefined;
  socket: Duplex | undefined;
}

export class FakeRun {
  seq = 1;
  turn = 0;
  known = new Map<string, StepRecord>();
  status = "running";
  output: unknown;
  error: { code?: string; message: string } | undefined;
  waits = new Map<string, SentReport>();
  failures = new Map<string, number>();
  /** The events of its publish steps. */
  published: { topic: string; data: unknown }[] = [];
  constructor(
    readonly id: string,
    readonly workflow: string,
    readonly version: number,
    readonly input: unknown,
    readonly trigger?: RunTrigger,
  ) {}
}

let ids = 0;

export class FakeServer {
  readonly http: Server;
  readonly sessions = new Map<string, Session>();
  readonly runs = new Map<string, FakeRun>();
  /** Everything that workers have sent, in order. */
  readonly reports: SentReport[] = [];
  /** Reports per message. */
  readonly batches: number[] = [];
  readonly hellos: Hello[] = [];
  readonly resumed: number[] = [];
  readonly byes: string[] = [];
  readonly capacities: number[] = [];
  /** Answers the upgrade with this status in place of a socket. */
  refuseSocket: number | undefined;
  /** How often it did. */
  refusals = 0;
  /** Looks at a report before it is taken: `drop` loses it with the connection after it is in the journal, `later` asks for it again. */
  onReport: ((sent: SentReport) => "take" | "drop" | "later" | "lose" | "keep" | { refuse: string }) | undefined;
  /** Answers a request in place of the server, as a proxy may. */
  onRequest: ((path: string, bytes: number) => { status: number; text: string } | undefined) | undefined;
  /** Bytes of the longest message with reports. */
  longest = 0;
  leaseSeconds = 30;
  /** Answers no ping. */
  isMute = false;
  maxReports = 512;
  /** The features of the welcome. */
  features: string[] | undefined;
  private readonly sockets = new Set<Duplex>();

  constructor() {
    this.http = createServer((request, response) => void this.answer(request, response));
    this.http.on("upgrade", (request, socket: Duplex) => this.upgrade(request, socket));
    this.http.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.http.listen(0, "127.0.0.1", resolve));
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.http.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.http.close(resolve));
  }

  /** Cuts all connections. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  start(workflow: string, input: unknown = null, version = 1, trigger?: RunTrigger): FakeRun {
    const id = `00000000-0000-7000-8000-${String(++ids).padStart(12, "0")}`;
    const run = new FakeRun(id, workflow, version, input, trigger);
    this.runs.set(id, run);
    for (const session of this.sessions.values()) {
      if (session.hello.workflows.some((served) => served.name === workflow)) {
        this.give(session, run);
        break;
      }
    }
    return run;
  }

  /** Gives a run to a session, as a new turn. */
  give(session: Session, run: FakeRun): void {
    run.turn += 1;
    run.seq += 1;
    this.put(session, { turns: [this.turnOf(run)] });
  }

  /** Gives all runs to the newest session, each as a new turn. */
  giveAll(): void {
    const session = [...this.sessions.values()].at(-1);
    if (session === undefined) throw new Error("there is no session");
    for (const run of this.runs.values()) if (run.status === "running") this.give(session, run);
  }

  signal(run: FakeRun, event: string, payload: unknown): boolean {
    for (const [step, wait] of run.waits) {
      if ((wait.event ?? step) !== event) continue;
      run.waits.delete(step);
      this.wake(run, { step, kind: "wait", seq: ++run.seq, status: "resolved", payload });
      return true;
    }
    return false;
  }

  tell(message: Omit<NumberedMessage, "m">): void {
    const session = [...this.sessions.values()].at(-1) as Session;
    this.put(session, message);
  }

  wake(run: FakeRun, known: StepRecord): void {
    run.known.set(known.step, known);
    this.tell({ wakes: [{ ...known, run: run.id, turn: run.turn }] });
  }

  async until(is: () => boolean, what: string, ms = 5_000): Promise<void> {
    const end = Date.now() + ms;
    while (!is()) {
      if (Date.now() > end) throw new Error(`the timeout has expired before ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  ended(run: FakeRun, ms?: number): Promise<void> {
    return this.until(() => run.status !== "running", `run ${run.id} ends`, ms);
  }

  private turnOf(run: FakeRun): Turn {
    const steps = [...run.known.values()].sort((a, b) => a.seq - b.seq);
    const { id, turn, workflow, version, input, seq, trigger } = run;
    return { run: id, turn, workflow, version, input, seq, startedAt: "2026-05-01T12:00:00Z", steps, ...(trigger !== undefined && { trigger }) };
  }

  private put(session: Session, message: Omit<NumberedMessage, "m">): void {
    const numbered: NumberedMessage = { m: ++session.last, ...message };
    session.sent.push(numbered);
    if (session.socket !== undefined) session.socket.write(text(JSON.stringify(numbered)));
    session.waiting?.();
  }

  private open(hello: Hello): Session {
    this.hellos.push(hello);
    const id = `session-${++ids}`;
    const session: Session = { id, hello, last: 0, sent: [], waiting: undefined, socket: undefined };
    this.sessions.set(id, session);
    return session;
  }

  /** Sends the first messages of a session: the turns that it may keep, and new ones. */
  private greet(session: Session): void {
    for (const { run: id, turn } of session.hello.holds) {
      const run = this.runs.get(id);
      if (run !== undefined && run.turn === turn) this.put(session, { turns: [this.turnOf(run)] });
    }
    for (const run of this.runs.values()) if (run.turn === 0) this.give(session, run);
  }

  private welcome(session: Session): object {
    return { session: session.id, leaseSeconds: this.leaseSeconds, maxMessageBytes: 4_194_304, maxReports: this.maxReports, features: this.features };
  }

  /** Takes reports; false if the connection is to be cut. */
  private take(session: Session, reports: SentReport[]): boolean {
    this.batches.push(reports.length);
    const acks: [number, number][] = [];
    const later: number[] = [];
    const refused: { n: number; code: string; detail: string }[] = [];
    const wakes: Wake[] = [];
    const after: (() => void)[] = [];
    for (const sent of reports) {
      this.reports.push(sent);
      const verdict = this.onReport?.(sent) ?? "take";
      if (verdict === "lose") return false;
      if (verdict === "keep") continue;
      if (verdict === "later") {
        later.push(sent.n);
        continue;
      }
      const run = this.runs.get(sent.run);
      if (typeof verdict === "object") refused.push({ n: sent.n, code: verdict.refuse, detail: "refused by the test" });
      else if (run === undefined || run.turn !== sent.turn) refused.push({ n: sent.n, code: "FENCED", detail: "an older turn" });
      else if (run.status !== "running" && !(run.status === "diverged" && sent.attempt !== undefined)) refused.push({ n: sent.n, code: "RUN_ENDED", detail: "the run has ended" });
      else {
        acks.push([sent.n, this.journal(run, sent, after)]);
        // The result of a step that is decided at once is part of the message that acknowledges it.
        const known = run.known.get(sent.step ?? "");
        if (sent.kind === "publish" && known !== undefined) wakes.push({ ...known, run: run.id, turn: run.turn });
      }
      if (verdict === "drop") return false;
    }
    const message: Omit<NumberedMessage, "m"> = {};
    if (acks.length > 0) message.acks = acks;
    if (wakes.length > 0) message.wakes = wakes;
    if (later.length > 0) message.later = later;
    if (refused.length > 0) message.refused = refused;
    if (acks.length + later.length + refused.length > 0) this.put(session, message);
    for (const next of after) next();
    return true;
  }

  private journal(run: FakeRun, sent: SentReport, after: (() => void)[]): number {
    const step = sent.step ?? "";
    const before = run.known.get(step);
    switch (sent.kind) {
      case "completed":
        if (before?.status === "completed") return 0;
        run.known.set(step, { step, kind: "run", seq: ++run.seq, status: "completed", output: sent.output });
        return run.seq;
      case "failed": {
        const count = (run.failures.get(step) ?? 0) + 1;
        run.failures.set(step, count);
        const seq = ++run.seq;
        const error = { code: sent.error?.code ?? "STEP_FAILED", message: sent.error?.message ?? "", attempts: count };
        if (sent.error?.retryable === false || count >= (sent.retry?.attempts ?? 1)) {
          after.push(() => this.wake(run, { step, kind: "run", seq, status: "failed", error }));
        } else {
          run.known.set(step, { step, kind: "run", seq, status: "open" });
          setTimeout(() => this.wake(run, { step, kind: "run", seq: ++run.seq, status: "retry", attempt: count + 1 }), 5);
        }
        return seq;
      }
      case "sleep": {
        if (before !== undefined) return 0;
        run.known.set(step, { step, kind: "sleep", seq: ++run.seq, status: "open" });
        const ms = sent.forMs ?? (sent.untilMs as number) - Date.now();
        setTimeout(() => run.status === "running" && this.wake(run, { step, kind: "sleep", seq: ++run.seq, status: "slept" }), ms).unref();
        return run.seq;
      }
      case "wait":
        if (before !== undefined) return 0;
        run.known.set(step, { step, kind: "wait", seq: ++run.seq, status: "open" });
        run.waits.set(step, sent);
        if (sent.timeoutMs !== undefined) {
          setTimeout(() => {
            if (run.waits.delete(step)) this.wake(run, { step, kind: "wait", seq: ++run.seq, status: "timedOut" });
          }, sent.timeoutMs).unref();
        }
        return run.seq;
      case "call":
        run.known.set(step, { step, kind: "call", seq: ++run.seq, status: "open" });
        return run.seq;
      case "publish":
        if (before !== undefined) return 0;
        run.published.push({ topic: sent.topic as string, data: sent.data });
        run.seq += 2;
        run.known.set(step, { step, kind: "publish", seq: run.seq, status: "completed", output: { id: `event-${run.published.length}`, topic: sent.topic } });
        return run.seq - 1;
      case "returned":
        run.status = "completed";
        run.output = sent.output;
        return ++run.seq;
      case "threw":
      case "diverged":
      case "declined":
        run.status = sent.kind;
        run.error = sent.error;
        return ++run.seq;
      default:
        return 0;
    }
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    const proxied = this.onRequest?.(request.url ?? "", bytes.length);
    if (proxied !== undefined) {
      response.writeHead(proxied.status, { "content-type": "text/html" });
      return void response.end(proxied.text);
    }
    const body = bytes.length === 0 ? {} : JSON.parse(bytes.toString("utf8"));
    if (body.reports !== undefined) this.longest = Math.max(this.longest, bytes.length);
    const reply = (status: number, document: object) => {
      response.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json" });
      response.end(JSON.stringify(document));
    };
    if (request.headers.authorization !== "Bearer es_test") return reply(401, { code: "AUTH_ERROR", detail: "the key is unknown", status: 401 });
    if (request.url === "/v1/worker/sessions") {
      const session = this.open(body as Hello);
      reply(201, this.welcome(session));
      return this.greet(session);
    }
    if (request.method === "DELETE") {
      this.byes.push(request.url ?? "");
      this.sessions.delete(request.url?.split("/").at(-1) ?? "");
      response.writeHead(204);
      return void response.end();
    }
    if (!request.url?.startsWith("/v1/worker/")) return this.rest(request, body, reply);
    const session = this.sessions.get(body.session);
    if (session === undefined) return reply(410, { code: "SESSION_GONE", detail: "the session has ended", status: 410 });
    session.sent = session.sent.filter((message) => message.m > body.seen);
    if (request.url === "/v1/worker/reports") {
      const at = session.last;
      if (!this.take(session, body.reports as SentReport[])) return void request.socket.destroy();
      return reply(200, { messages: session.sent.filter((message) => message.m > at) });
    }
    if (body.capacity !== undefined) this.capacities.push(body.capacity);
    if (session.sent.length === 0 && body.waitMs > 0) {
      await new Promise<void>((resolve) => {
        session.waiting = resolve;
        setTimeout(resolve, body.waitMs).unref();
        request.socket.once("close", () => resolve());
      });
      // Another poll may wait by now.
      if (response.destroyed) return;
      session.waiting = undefined;
    }
    if (!response.destroyed) reply(200, { messages: session.sent });
  }

  /** As much of the REST routes as the examples use. */
  private rest(request: IncomingMessage, body: { input?: unknown; idempotencyKey?: string }, reply: (status: number, document: object) => void): void {
    const [path = "", query = ""] = (request.url ?? "").split("?");
    const [, , , one, two, three, four] = path.split("/");
    const shown = (run: FakeRun) => ({ id: run.id, workflow: run.workflow, status: run.status, output: run.output ?? null });
    if (request.method === "POST" && two === "runs") {
      const before = this.keys.get(body.idempotencyKey ?? "");
      const run = before ?? this.start(one as string, body.input);
      if (body.idempotencyKey !== undefined) this.keys.set(body.idempotencyKey, run);
      return reply(before === undefined ? 201 : 200, { run: shown(run), created: before === undefined });
    }
    const run = this.runs.get((two === "runs" ? three : one) as string);
    if (run === undefined) return reply(404, { code: "NOT_FOUND", detail: "there is no such run", hint: "look again", status: 404 });
    if (query.startsWith("waitSeconds=")) {
      return void this.until(() => run.status !== "running", "the run has ended").then(() => reply(200, shown(run)));
    }
    if (two !== "signals") return reply(200, shown(run));
    const isTaken = this.signal(run, (three ?? four) as string, body);
    reply(200, isTaken ? { outcome: "accepted" } : { outcome: "ignored", reason: "the run has no wait for this signal" });
  }

  private readonly keys = new Map<string, FakeRun>();

  private upgrade(request: IncomingMessage, socket: Duplex): void {
    socket.on("error", () => {});
    if (this.refuseSocket !== undefined) {
      this.refusals += 1;
      return void socket.end(`HTTP/1.1 ${this.refuseSocket} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
    }
    if (request.headers.authorization !== "Bearer es_test") {
      const body = '{"code":"AUTH_ERROR","detail":"the key is unknown","status":401}';
      return void socket.end(`HTTP/1.1 401 No\r\ncontent-type: application/problem+json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    }
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`);
    let session: Session | undefined;
    read(socket, (said) => {
      const body = JSON.parse(said);
      if (body.hello !== undefined) {
        session = this.open(body.hello as Hello);
        session.socket = socket;
        socket.write(text(JSON.stringify({ welcome: this.welcome(session) })));
        return this.greet(session);
      }
      if (body.resume !== undefined) {
        this.resumed.push(body.resume.seen);
        session = this.sessions.get(body.resume.session);
        if (session === undefined) {
          return void socket.end(text('{"gone":{"code":"SESSION_GONE","detail":"the session has ended"}}'));
        }
        session.socket = socket;
        socket.write(text(JSON.stringify({ welcome: this.welcome(session) })));
        for (const message of session.sent) if (message.m > body.resume.seen) socket.write(text(JSON.stringify(message)));
        return;
      }
      if (session === undefined) return;
      if (body.reports !== undefined) this.longest = Math.max(this.longest, Buffer.byteLength(said));
      if (body.seen !== undefined) session.sent = session.sent.filter((message) => message.m > body.seen);
      if (body.ping && !this.isMute) socket.write(text('{"pong":true}'));
      if (body.capacity !== undefined) this.capacities.push(body.capacity);
      if (body.bye) this.byes.push(session.id);
      if (body.reports !== undefined && !this.take(session, body.reports as SentReport[])) socket.destroy();
    });
    socket.on("close", () => {
      if (session?.socket === socket) session.socket = undefined;
    });
  }
}

/** An unmasked text frame. */
export function text(body: string): Buffer {
  const bytes = Buffer.from(body);
  const header = bytes.length < 126 ? Buffer.from([0x81, bytes.length]) : bytes.length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  if (header.length === 4) {
    header[0] = 0x81;
    header[1] = 126;
    header.writeUInt16BE(bytes.length, 2);
  } else if (header.length === 10) {
    header[0] = 0x81;
    header[1] = 127;
    header.writeBigUInt64BE(BigInt(bytes.length), 2);
  }
  return Buffer.concat([header, bytes]);
}

/** Reads masked frames; text goes to `take`. */
export function read(socket: Duplex, take: (text: string) => void, control?: (opcode: number, bytes: Buffer) => void): void {
  let rest = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      if (rest.length < 2) return;
      let length = (rest[1] as number) & 127;
      let at = 2;
      if (length === 126) {
        if (rest.length < 4) return;
        length = rest.readUInt16BE(2);
        at = 4;
      } else if (length === 127) {
        if (rest.length < 10) return;
        length = Number(rest.readBigUInt64BE(2));
        at = 10;
      }
      if (rest.length < at + 4 + length) return;
      const mask = rest.subarray(at, at + 4);
      const bytes = Buffer.from(rest.subarray(at + 4, at + 4 + length));
      for (let i = 0; i < length; i++) bytes[i] = (bytes[i] as number) ^ (mask[i & 3] as number);
      const opcode = (rest[0] as number) & 15;
      rest = rest.subarray(at + 4 + length);
      if (opcode === 1) take(bytes.toString("utf8"));
      else if (opcode === 8 && control === undefined) socket.end(Buffer.from([0x88, 0]));
      else control?.(opcode, bytes);
    }
  });
}
