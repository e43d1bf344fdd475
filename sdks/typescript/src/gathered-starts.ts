// Starts of many callers, gathered into batches while a request is in flight.
//
// A start is sent at once if no other start of its workflow is in flight, together with those that other callers have
// called by the time of the next microtask. Those that are called until the response are sent together. Each call has its
// own result: a start that the server refuses fails its caller only.

import { ApiError } from "./errors.js";
import { type HttpClient, problemFromDocument, request } from "./http.js";

/** The answer of the server to a start. */
export interface StartAnswer {
  run: { id: string; status: string };
  created: boolean;
  warning?: string;
}

interface PendingStart {
  body: string;
  /** Whether it may be sent again when its outcome is unknown. */
  isRepeatable: boolean;
  resolve(answer: StartAnswer): void;
  reject(error: unknown): void;
}

interface BatchAnswer {
  runs: { id?: string; created?: boolean; status?: string; error?: { code?: unknown; status?: unknown } }[];
  warning?: string;
}

const BATCH_STARTS_MAX = 200;
const BATCH_CHARACTERS_MAX = 1024 * 1024;
/** Starts wait no longer than this for the response to another one. */
const GATHER_MAX_MS = 50;

/** The starts of one client. */
export class GatheredStarts {
  private readonly queues = new Map<string, Queue>();
  /** The workflows whose batches the server refuses. */
  private readonly refused = new Set<string>();

  constructor(private readonly http: HttpClient) {}

  /** Starts a run. `path` is that of its workflow. Only starts of the same version share a batch, and a warning. */
  start(path: string, version: number | undefined, body: string, isRepeatable: boolean): Promise<StartAnswer> {
    if (this.refused.has(path)) return request<StartAnswer>(this.http, "POST", `${path}/runs`, { body, isRepeatable });
    const key = `${path} ${version ?? ""} ${isRepeatable}`;
    let queue = this.queues.get(key);
    if (queue === undefined) {
      const onRefused = () => {
        this.refused.add(path);
      };
      queue = new Queue(this.http, path, isRepeatable, () => this.queues.delete(key), onRefused);
      this.queues.set(key, queue);
    }
    return queue.add(body);
  }
}

class Queue {
  private waiting: PendingStart[] = [];
  private inFlight = 0;
  private isFlushing = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly http: HttpClient,
    private readonly path: string,
    private readonly isRepeatable: boolean,
    private readonly onIdle: () => void,
    private readonly onRefused: () => void,
  ) {}

  add(body: string): Promise<StartAnswer> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ body, isRepeatable: this.isRepeatable, resolve, reject });
      if (this.inFlight === 0) this.flushSoon();
      else this.timer ??= setTimeout(() => this.flush(), GATHER_MAX_MS);
    });
  }

  /** Callers whose waits have ended together call their next starts one after the other: these are sent together. */
  private flushSoon(): void {
    if (this.isFlushing) return;
    this.isFlushing = true;
    queueMicrotask(() => {
      this.isFlushing = false;
      this.flush();
    });
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    while (this.waiting.length > 0) {
      let [count, characters] = [0, 0];
      for (const { body } of this.waiting) {
        if (count > 0 && (count === BATCH_STARTS_MAX || characters + body.length > BATCH_CHARACTERS_MAX)) break;
        count += 1;
        characters += body.length;
      }
      this.inFlight += 1;
      void this.send(this.waiting.splice(0, count)).finally(() => {
        this.inFlight -= 1;
        if (this.inFlight > 0) return;
        if (this.waiting.length > 0) this.flush();
        else this.onIdle();
      });
    }
  }

  /** Sends starts. Never rejects: the callers of the starts receive the outcomes. */
  private async send(starts: PendingStart[]): Promise<void> {
    const [first] = starts;
    if (starts.length === 1 && first !== undefined) return this.sendOne(first);
    let answer: BatchAnswer;
    try {
      const body = `{"runs":[${starts.map((start) => start.body).join(",")}]}`;
      answer = await request<BatchAnswer>(this.http, "POST", `${this.path}/runs/batch`, { body, isRepeatable: this.isRepeatable });
    } catch (error) {
      // The server refused the batch before it started a run: an older server, a missing permission, or a start that is
      // not valid. The answer of a proxy, without a problem document, leaves the outcome unknown.
      const isRefused =
        error instanceof ApiError && error.code !== "UNEXPECTED_ANSWER" && error.status >= 400 && error.status < 500 && error.status !== 401 && error.status !== 429;
      if (isRefused) {
        if (error.status === 403 || error.status === 404 || error.status === 405) this.onRefused();
        return this.sendEach(starts);
      }
      for (const start of starts) start.reject(error);
      return;
    }
    const again: PendingStart[] = [];
    const read: [start: PendingStart, id: string, created: boolean][] = [];
    starts.forEach((start, place) => {
      const one = answer.runs?.[place];
      if (one?.error !== undefined) {
        const error = problem(one.error);
        if (isToBeRepeated(error, start.isRepeatable)) again.push(start);
        else start.reject(error);
      } else if (one?.id === undefined) {
        start.reject(new ApiError(0, "UNEXPECTED_ANSWER", "the response to a batch of starts is incomplete"));
      } else if (one.status === undefined) {
        // An older server does not send the status, so it is read. The run exists: the start is never sent again.
        read.push([start, one.id, one.created ?? true]);
      } else {
        const { id, status, created = true } = one;
        start.resolve({ run: { id, status }, created, ...(answer.warning === undefined ? {} : { warning: answer.warning }) });
      }
    });
    await Promise.all([this.sendEach(again), ...read.map(([start, id, created]) => this.readStarted(start, id, created, answer.warning))]);
  }

  /** Reads the status of a run that was started. */
  private async readStarted(start: PendingStart, id: string, created: boolean, warning: string | undefined): Promise<void> {
    const answer = (run: { id: string; status: string }): StartAnswer => ({ run, created, ...(warning === undefined ? {} : { warning }) });
    const path = `${this.path}/runs/${encodeURIComponent(id)}`;
    await request<StartAnswer["run"]>(this.http, "GET", path).then((run) => start.resolve(answer({ id, status: run.status })), start.reject);
  }

  private async sendEach(starts: readonly PendingStart[]): Promise<void> {
    await Promise.all(starts.map((start) => this.sendOne(start)));
  }

  private async sendOne(start: PendingStart): Promise<void> {
    const { body, isRepeatable } = start;
    await request<StartAnswer>(this.http, "POST", `${this.path}/runs`, { body, isRepeatable }).then(start.resolve, start.reject);
  }
}

/** The error of a start in a batch. */
function problem(document: { code?: unknown; status?: unknown }): ApiError {
  try {
    return problemFromDocument(0, document);
  } catch {
    return new ApiError(0, "UNEXPECTED_ANSWER", `the error of a start is not a problem document: ${JSON.stringify(document).slice(0, 200)}`);
  }
}

/** Whether a start that failed within a batch is sent again, as a single request would be. */
function isToBeRepeated(error: ApiError, isRepeatable: boolean): boolean {
  if (error.code === "UNAVAILABLE" || error.code === "RATE_LIMITED") return true;
  return isRepeatable && (error.status === 429 || (error.status >= 502 && error.status <= 504));
}
