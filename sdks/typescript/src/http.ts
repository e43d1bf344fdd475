// Requests over node:http with keep-alive connections. `fetch` costs ten times as much per request.

import * as http from "node:http";
import * as https from "node:https";
import { ApiError } from "./errors.js";

export interface Connection {
  /** The address of the server. Default: `EVERSTEP_URL`, then http://127.0.0.1:7373. */
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
    const text = connection.url ?? process.env["EVERSTEP_URL"] ?? "http://127.0.0.1:7373";
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
