// Requests over node:http with keep-alive connections. `fetch` costs ten times as much per request.

import * as http from "node:http";
import * as https from "node:https";
import { ApiError } from "./errors.js";

export interface Connection {
  /** The address of the server. Default: `EVERSTEP_URL`, or its former name `EVERSTEP_SERVER`, or http://127.0.0.1:7373. */
  url?: string | undefined;
  /** Default: `EVERSTEP_API_KEY`. */
  apiKey?: string | undefined;
}

export const CONNECTION_OPTIONS = { url: true, apiKey: true } as const;

export interface HttpResponse {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

export interface SendOptions {
  headers?: Record<string, string>;
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** The address of the server and the key for it. */
export class Endpoint {
  readonly url: URL;
  // Private, so that printing a worker does not show the key.
  readonly #headers: Record<string, string>;
  readonly isSecure: boolean;
  private readonly prefix: string;

  constructor(connection: Connection) {
    // An empty variable counts as one that is not set, as it does for the command line.
    const text = connection.url ?? (process.env["EVERSTEP_URL"] || process.env["EVERSTEP_SERVER"] || "http://127.0.0.1:7373");
    // A key that was read from a file ends with a line break.
    const key = (connection.apiKey ?? process.env["EVERSTEP_API_KEY"])?.trim();
    if (!URL.canParse(text)) throw new TypeError(`the server's url is ${JSON.stringify(text)}: write http://host:port`);
    this.url = new URL(text);
    if (this.url.protocol !== "http:" && this.url.protocol !== "https:") {
      throw new TypeError(`the server's url is ${JSON.stringify(text)}: it must begin with http:// or https://`);
    }
    if (key === undefined || key === "") {
      throw new TypeError("the API key is missing: pass apiKey, or set EVERSTEP_API_KEY");
    }
    if (!isHeaderValue(key)) throw new TypeError("the API key contains characters that are not allowed in a key");
    this.isSecure = this.url.protocol === "https:";
    this.prefix = this.url.pathname.replace(/\/+$/, "");
    this.#headers = { authorization: `Bearer ${key}` };
  }

  get headers(): Record<string, string> {
    return this.#headers;
  }

  /** The address for messages: without user name and password. */
  get address(): string {
    return `${this.url.protocol}//${this.url.host}${this.prefix}`;
  }

  /** The options of node:http for a request. */
  options(method: string, path: string): https.RequestOptions {
    const { hostname, port } = this.url;
    const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
    return { method, host, port: port === "" ? undefined : port, path: this.prefix + path };
  }

  request(options: https.RequestOptions): http.ClientRequest {
    return this.isSecure ? https.request(options) : http.request(options);
  }
}

export class HttpClient {
  isClosed = false;
  private readonly agent: http.Agent;

  constructor(
    readonly endpoint: Endpoint,
    maxSockets: number,
  ) {
    // The server may close an idle connection just when a request is sent: the client closes it earlier.
    const options = { keepAlive: true, noDelay: true, maxSockets, scheduling: "lifo" as const, timeout: 15_000 };
    this.agent = endpoint.isSecure ? new https.Agent(options) : new http.Agent(options);
  }

  /** Sends one request. Rejects with an `ApiError` of status 0 if no response arrives. */
  send(method: string, path: string, body: string | undefined, options: SendOptions = {}): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const headers: Record<string, string | number> = { ...this.endpoint.headers, accept: "application/json", ...options.headers };
      if (body !== undefined) {
        headers["content-type"] = "application/json";
        headers["content-length"] = Buffer.byteLength(body);
      }
      const fail = (error: Error) => reject(noAnswer(this.endpoint, `${method} ${path}`, error, body));
      const request = this.endpoint.request({
        ...this.endpoint.options(method, path),
        agent: this.agent,
        headers,
        ...(options.timeoutMs === undefined ? {} : { timeout: options.timeoutMs }),
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      });
      request.on("error", fail);
      request.on("timeout", () => request.destroy(new Error(`no answer within ${options.timeoutMs} ms`)));
      request.on("response", (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", fail);
        response.on("end", () => {
          const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text: bytes.toString("utf8") });
        });
      });
      // Node.js encodes a text body together with the headers: header values that are bytes already would be encoded twice.
      request.end(body === undefined || options.headers === undefined ? body : Buffer.from(body));
    });
  }

  /** A request whose response is read as it arrives. */
  open(path: string, accept: string): http.ClientRequest {
    const headers = { ...this.endpoint.headers, accept };
    return this.endpoint.request({ ...this.endpoint.options("GET", path), agent: this.agent, headers });
  }

  close(): void {
    this.isClosed = true;
    this.agent.destroy();
  }
}

/** Whether a header may have this value. */
export function isHeaderValue(value: string): boolean {
  try {
    http.validateHeaderValue("value", value);
    return true;
  } catch {
    return false;
  }
}

/** Characters of a body that the server may refuse before it has read all of it. */
const LARGE_BODY_CHARACTERS = 256 * 1024;
/** The remedy for a request that is too large (413). */
const TOO_LARGE_HINT =
  "store large values elsewhere, for example in an object store, and pass a reference; if a proxy refuses the request, raise its limit of the body (nginx: client_max_body_size)";

/** The error of a request without a response, with a remedy where there is one. */
export function noAnswer(endpoint: Endpoint, request: string, error: Error, body?: string): ApiError {
  // An error of several addresses, as of localhost, has a code and no message.
  const { code = "" } = error as { code?: string };
  const detail = `${request}: ${error.message || code || "no answer"}`;
  let hint: string | undefined;
  if (code === "ECONNREFUSED") hint = `is \`everstep serve\` running at ${endpoint.address}? If the server has another address, set url or EVERSTEP_URL`;
  else if (code === "ENOTFOUND" || code === "EAI_AGAIN") hint = `check the host in ${endpoint.address}, which is read from url or EVERSTEP_URL`;
  else if ((code === "EPIPE" || code === "ECONNRESET") && body !== undefined && body.length > LARGE_BODY_CHARACTERS) {
    // The server answers 413 and closes the connection while the body is still sent: Node.js reports the write alone.
    hint = `the request has ${Buffer.byteLength(body)} bytes, which may be too large: ${TOO_LARGE_HINT}`;
  }
  return new ApiError(0, "NO_ANSWER", detail, hint, { cause: error });
}

/** The problem document in the body of a response, as an error. */
export function problemFromBody(status: number, text: string): ApiError {
  try {
    return problemFromDocument(status, JSON.parse(text));
  } catch {
    const detail = `the response has status ${status} and is not a problem document: ${text.slice(0, 200)}`;
    return new ApiError(status, "UNEXPECTED_ANSWER", detail, status === 413 ? TOO_LARGE_HINT : undefined);
  }
}

/** A problem document as an error. */
export function problemFromDocument(status: number, document: { code?: unknown; detail?: unknown; hint?: unknown; status?: unknown; [member: string]: unknown }): ApiError {
  const { type: _type, title: _title, status: _status, code, detail, hint, ...details } = document;
  if (typeof code !== "string") throw new TypeError("this is not a problem document");
  const number = typeof document.status === "number" ? document.status : status;
  const remedy = typeof hint === "string" ? hint : number === 413 ? TOO_LARGE_HINT : undefined;
  return new ApiError(number, code, typeof detail === "string" ? detail : code, remedy, { details });
}

// Requests of a client: repeated while that is safe, and lists that are read page by page.

const TRIES_MAX = 6;
const RESPONSE_TIMEOUT_MS = 45_000;
/** The longest `retry-after` of a server that is respected. */
const RETRY_AFTER_MAX_MS = 60_000;
const BACKOFF_MAX_MS = 2_000;

export interface RequestOptions {
  body?: string | undefined;
  headers?: Record<string, string>;
  /** Whether the request may be sent again when its outcome is unknown. */
  isRepeatable?: boolean;
  /** The time until which the request is repeated while the server cannot be reached. Default: six tries. */
  until?: number;
}

/** Sends a request and returns the body of its response. */
export async function request<T>(http: HttpClient, method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const isRepeatable = method === "GET" || options.isRepeatable === true;
  const { until, headers } = options;
  for (let tries = 1; ; tries++) {
    let error: ApiError;
    let retryAfterMs = 0;
    try {
      // The server may hold the request until the end of the wait and respond then.
      const timeoutMs = until === undefined ? RESPONSE_TIMEOUT_MS : Math.min(60_000, Math.max(0, until - Date.now()) + 5_000);
      const response = await http.send(method, path, options.body, { timeoutMs, ...(headers === undefined ? {} : { headers }) });
      if (response.status >= 200 && response.status < 300) return parse<T>(response);
      error = problemFromBody(response.status, response.text);
      retryAfterMs = Math.min(RETRY_AFTER_MAX_MS, 1_000 * (Number(response.headers["retry-after"]) || 0));
    } catch (caught) {
      if (!(caught instanceof ApiError)) throw caught;
      error = caught;
    }
    if (http.isClosed || !mayRetry(error, isRepeatable)) throw error;
    const left = until === undefined ? TRIES_MAX - tries : until - Date.now();
    if (left <= 0) throw until === undefined ? error : new ApiError(0, "WAIT_TIMEOUT", `the timeout has expired: ${error.detail}`, error.hint, { cause: error });
    const pause = retryAfterMs + Math.min(BACKOFF_MAX_MS, 50 * 2 ** tries) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, until === undefined ? pause : Math.min(pause, left)));
    if (http.isClosed) throw error;
  }
}

/** Error codes of a server whose certificate is not trusted. */
const UNTRUSTED = /CERT|TLS|SSL|VERIFY|EPROTO/;

/** Whether another try may succeed and is safe. */
function mayRetry(error: ApiError, isRepeatable: boolean): boolean {
  // The server answers with these codes before it changes anything.
  if (error.code === "UNAVAILABLE" || error.code === "RATE_LIMITED") return true;
  if (error.status === 0) {
    const { code = "" } = (error.cause ?? {}) as { code?: string };
    return code === "ECONNREFUSED" || (isRepeatable && !UNTRUSTED.test(code));
  }
  return isRepeatable && (error.status === 429 || (error.status >= 502 && error.status <= 504));
}

function parse<T>(response: HttpResponse): T {
  if (response.status === 204) return undefined as T;
  try {
    return JSON.parse(response.text) as T;
  } catch {
    throw new ApiError(response.status, "UNEXPECTED_ANSWER", "the response is not JSON");
  }
}

/** The query string of a filter and a page. */
export function query(filter: object, cursor: string | null | undefined): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    if (name === "input" || name === "tags") {
      const prefix = name === "input" ? "input" : "tag";
      for (const [path, wanted] of Object.entries(value as Record<string, unknown>)) words.append(`${prefix}.${path}`, String(wanted));
    } else if (value instanceof Date) {
      words.append(name, value.toISOString());
    } else {
      words.append(name, String(value));
    }
  }
  if (cursor !== null && cursor !== undefined) words.append("cursor", cursor);
  return words.size === 0 ? "" : `?${words}`;
}

/** A list that is read page by page, and its rows one by one. */
export interface PagedList<Page, Row> extends AsyncIterable<Row> {
  page(cursor?: string | null): Promise<Page>;
}

export function list<Page extends { nextCursor: string | null }, Row>(page: PagedList<Page, Row>["page"], rowsOf: (page: Page) => readonly Row[]): PagedList<Page, Row> {
  return {
    page,
    async *[Symbol.asyncIterator]() {
      let cursor: string | null = null;
      do {
        const next: Page = await page(cursor);
        yield* rowsOf(next);
        cursor = next.nextCursor;
      } while (cursor !== null);
    },
  };
}

/** The rows of all pages. `page` reads the page of a query string: its rows, and the cursor of the next page. */
export async function allPages<Row>(page: (query: string) => Promise<[Row[], string | null]>): Promise<Row[]> {
  const all: Row[] = [];
  let cursor: string | null = null;
  do {
    const [rows, next]: [Row[], string | null] = await page(cursor === null ? "" : `?cursor=${encodeURIComponent(cursor)}`);
    all.push(...rows);
    cursor = next;
  } while (cursor !== null);
  return all;
}
