// Waits of many callers for the ends of runs, gathered into few requests.
//
// 1. One request waits for up to 200 runs: the server sends each run when it has ended or is paused. A wait that is called
//    while no request is open is sent at once. Others are sent together: those that are called while a request is being
//    opened, and those that are called within a quarter of the time that runs take, at most 25 ms (with eight or more open
//    requests at least 5 ms). So a steady load needs few requests, and few of its runs end before their waits are sent.
// 2. A wait with a timeout leaves its request when the time is over. A request that no wait needs is closed.
// 3. The server sends a first event at once. If it is late, either the server is slow or a proxy withholds streams. A
//    probe decides: a request of the same kind whose response ends at once. A proxy delivers that response, and a slow
//    server does not. Only a proxy that withholds streams makes the client wait for each run alone.

import type { ClientRequest } from "node:http";
import type { HttpClient } from "./http.js";

/** The fields of a run by which its workflow is known. */
interface HaltedRun {
  id: string;
  workflow: string;
}

/** The outcome of a wait: the run, `again` if it has not halted yet, or `alone` if the caller must request it alone. */
export type Halt<Run> = { run: Run } | "again" | "alone";

type Resolve = (halt: Halt<never>) => void;

const RUNS_MAX = 200;
const CANONICAL_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** After a request whose response was no stream, the next streams are tried after this time. */
const RETRY_AFTER_MS = 60_000;
/** A response without an end after this time has lost its connection. */
const RESPONSE_MAX_MS = 45_000;
/** A response that ends earlier than this without its runs is not repeated as a stream. */
const EARLY_END_MS = 1_000;
/** Seconds that the server holds a request. */
const WAIT_S = 30;
/** If the first event is not there after this time, a probe is sent. */
const PROBE_AFTER_MS = 1_000;
/** The first event may follow the response to the probe by this time: they use different connections. */
const AFTER_PROBE_MS = 1_000;
/** The longest delay of setTimeout: a longer one would be over at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** While requests are open, waits are gathered for this part of the shortest of the last waits, and no longer than this. */
const GATHER_PART = 4;
const GATHER_MAX_MS = 25;
/** A wait that is longer than the shortest of the last ones raises it by this part of the difference. */
const SHORTEST_RAISE_PART = 64;
/** With so many open requests, waits are gathered for a moment at least. */
const OPEN_MAX = 8;
const GATHER_MS = 5;

/** The waits of one client. */
export class GatheredWaits {
  /** Runs that no request waits for yet. */
  private readonly waiting = new Map<string, Resolve[]>();
  private readonly open = new Set<OpenRequest>();
  private opening = 0;
  private timer: NodeJS.Timeout | undefined;
  /** The shortest of the last waits. */
  private shortestMs = 0;
  /** Streams are not tried before this time. */
  private aloneUntil = 0;
  private isClosed = false;

  constructor(private readonly http: HttpClient) {}

  /** Waits for a run. Returns `again` after `maxMs` at the latest. */
  wait<Run extends HaltedRun>(runId: string, maxMs: number): Promise<Halt<Run>> {
    // The server names a run by its canonical id.
    if (this.isClosed || Date.now() < this.aloneUntil || !CANONICAL_ID.test(runId)) return Promise.resolve("alone");
    return new Promise((settled) => {
      const timer = maxMs === Number.POSITIVE_INFINITY ? undefined : setTimeout(() => this.leave(runId, resolve), Math.min(maxMs, TIMER_MAX_MS));
      const resolve: Resolve = (halt) => {
        clearTimeout(timer);
        settled(halt);
      };
      const resolvers = this.waiting.get(runId);
      if (resolvers === undefined) this.waiting.set(runId, [resolve]);
      else resolvers.push(resolve);
      this.schedule();
    });
  }

  /** The time of a wait is over. */
  private leave(runId: string, resolve: Resolve): void {
    if (remove(this.waiting, runId, resolve)) return resolve("again");
    for (const request of this.open) if (request.leave(runId, resolve)) return;
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    for (const request of this.open) request.abort("again");
    this.settleWaiting("again");
  }

  private settleWaiting(halt: "again" | "alone"): void {
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const resolve of waiting.flat()) resolve(halt);
  }

  private schedule(): void {
    if (this.waiting.size === 0 || this.opening > 0 || this.timer !== undefined) return;
    const gatherMs = this.gatherMs();
    if (gatherMs < 1) return this.flush();
    this.timer = setTimeout(() => this.flush(), gatherMs);
  }

  /** The time for which waits are gathered now. */
  private gatherMs(): number {
    if (this.open.size === 0) return 0;
    const part = Math.min(GATHER_MAX_MS, this.shortestMs / GATHER_PART);
    return this.open.size < OPEN_MAX ? part : Math.max(GATHER_MS, part);
  }

  /** A run has halted this time after its request was sent. */
  private recordHalt(ms: number): void {
    // A few long waits, such as for approvals or timers, must not delay the short ones.
    const raise = (Math.min(ms, GATHER_PART * GATHER_MAX_MS) - this.shortestMs) / SHORTEST_RAISE_PART;
    this.shortestMs = Math.min(ms, this.shortestMs + raise);
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (this.waiting.size > 0) {
      const runs = new Map([...this.waiting].slice(0, RUNS_MAX));
      for (const id of runs.keys()) this.waiting.delete(id);
      this.opening += 1;
      const onOpened = (isStreamed: boolean) => {
        this.opening -= 1;
        if (!isStreamed) {
          this.aloneUntil = Date.now() + RETRY_AFTER_MS;
          this.settleWaiting("alone");
        }
        this.schedule();
      };
      const request = new OpenRequest(this.http, runs, (ms) => this.recordHalt(ms), onOpened);
      this.open.add(request);
      void request.done.then(() => {
        this.open.delete(request);
        // No request is open, so the gathered waits are sent at once.
        if (this.open.size === 0 && this.timer !== undefined) this.flush();
      });
    }
  }
}

/** One request that waits for some runs. */
class OpenRequest {
  readonly done: Promise<void>;
  private readonly request: ClientRequest;
  private probe: ClientRequest | undefined;
  /** The run that the probe names: its wait may have left by then. */
  private readonly firstId: string;
  private timer: NodeJS.Timeout;
  private readonly openedAt = performance.now();
  private text = "";
  private isOpen = false;
  private finish!: () => void;

  constructor(
    private readonly http: HttpClient,
    private readonly runs: Map<string, Resolve[]>,
    private readonly onHalted: (ms: number) => void,
    private onOpened: ((isStreamed: boolean) => void) | undefined,
  ) {
    this.done = new Promise((resolve) => (this.finish = resolve));
    const ids = [...runs.keys()];
    this.firstId = ids[0] as string;
    this.request = open(http, ids, WAIT_S);
    this.timer = setTimeout(() => this.sendProbe(), PROBE_AFTER_MS);
    this.request.on("error", () => this.abort("alone", true));
    this.request.on("response", (response) => {
      const isStream = response.headers["content-type"]?.startsWith("text/event-stream") === true;
      if (response.statusCode !== 200 || !isStream) {
        response.resume();
        // A server without this route reads its name as the id of a run.
        return this.abort("alone", response.statusCode === 429 || (response.statusCode ?? 0) >= 500);
      }
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => this.read(chunk));
      response.on("error", () => this.abort("alone", true));
      // A server that stops ends its streams: the single requests that follow wait until it is back.
      response.on("end", () => this.end(performance.now() - this.openedAt < EARLY_END_MS ? "alone" : "again", true));
    });
    this.request.end();
  }

  /** The time of a wait is over. False if the wait is not one of this request. */
  leave(runId: string, resolve: Resolve): boolean {
    if (!remove(this.runs, runId, resolve)) return false;
    resolve("again");
    // Without its first event the request stays open: whether a proxy withholds it is not known yet.
    if (this.runs.size === 0 && this.isOpen) this.abort("again");
    return true;
  }

  /** Ends the request. The runs that have not halted get an outcome. */
  abort(halt: "again" | "alone", isStreamed = true): void {
    this.end(halt, isStreamed);
    this.request.destroy();
  }

  /** Finds out why the first event is late: see the third rule above. */
  private sendProbe(): void {
    this.timer = setTimeout(() => this.abort("alone"), RESPONSE_MAX_MS);
    this.probe = open(this.http, [this.firstId], 0);
    // Without a connection there is no answer to the question: the other request fails as well, or is answered late.
    this.probe.on("error", () => {});
    this.probe.on("response", (response) => {
      response.resume();
      response.on("error", () => {});
      response.on("end", () => {
        if (this.isOpen) return;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.abort("alone", false), AFTER_PROBE_MS);
      });
    });
    this.probe.end();
  }

  private end(halt: "again" | "alone", isStreamed: boolean): void {
    clearTimeout(this.timer);
    this.probe?.destroy();
    this.opened(isStreamed);
    for (const resolvers of this.runs.values()) for (const resolve of resolvers) resolve(halt);
    this.runs.clear();
    this.finish();
  }

  private opened(isStreamed: boolean): void {
    if (this.isOpen) return;
    this.isOpen = true;
    this.onOpened?.(isStreamed);
    this.onOpened = undefined;
  }

  private read(chunk: string): void {
    this.text += chunk;
    for (let end = this.text.indexOf("\n\n"); end >= 0; end = this.text.indexOf("\n\n")) {
      let name: string;
      let data: unknown;
      try {
        [name, data] = event(this.text.slice(0, end));
      } catch {
        return this.abort("alone", false);
      }
      this.text = this.text.slice(end + 2);
      if (!this.isOpen) {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.abort("again"), RESPONSE_MAX_MS);
        this.probe?.destroy();
        this.opened(true);
        if (this.runs.size === 0) return this.abort("again");
      }
      if (name === "run") {
        this.onHalted(performance.now() - this.openedAt);
        this.settle((data as HaltedRun).id, { run: data as never });
      } else if (name === "unreadable") this.settle((data as HaltedRun).id, "alone");
    }
  }

  private settle(id: string, halt: Halt<never>): void {
    const resolvers = this.runs.get(id) ?? [];
    this.runs.delete(id);
    for (const resolve of resolvers) resolve(halt);
  }
}

/** A request for the ends of runs, which is not sent yet. */
function open(http: HttpClient, ids: readonly string[], waitSeconds: number): ClientRequest {
  return http.open(`/v1/runs/wait?waitSeconds=${waitSeconds}&ids=${ids.join(",")}`, "text/event-stream");
}

/** Removes one wait for a run. False if it is not there. */
function remove(runs: Map<string, Resolve[]>, runId: string, resolve: Resolve): boolean {
  const resolvers = runs.get(runId);
  const place = resolvers?.indexOf(resolve) ?? -1;
  if (resolvers === undefined || place < 0) return false;
  resolvers.splice(place, 1);
  if (resolvers.length === 0) runs.delete(runId);
  return true;
}

/** The name and the data of a server-sent event. */
function event(text: string): [name: string, data: unknown] {
  let name = "";
  let data = "null";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  return [name, JSON.parse(data)];
}
