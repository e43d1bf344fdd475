// Requests over node:http with connections that are kept. `fetch` costs ten times as much per request.

import * as http from "node:http";
import * as https from "node:https";
import { ApiError } from "./errors.js";

export interface Connection {
  /** Where the server is. `EVERSTEP_URL`, or http://127.0.0.1:7373, if it is not given. */
  url?: string | undefined;
  /** `EVERSTEP_API_KEY` if it is not given. */
  apiKey?: string | undefined;
}

export const CONNECTION = { url: true, apiKey: true } as const;

export interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

export interface RequestOptions {
  headers?: Record<string, string>;
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Where the server is, and what opens it. */
export class Address {
  readonly url: URL;
  // Not shown to whoever prints a worker.
  readonly #headers: Record<string, string>;
  readonly isSecure: boolean;
  private readonly prefix: string;

  constructor(connection: Connection) {
    const text = connection.url ?? process.env["EVERSTEP_URL"] ?? "http://127.0.0.1:7373";
    // A key that was read from a file has a line's end.
    const key = (connection.apiKey ?? process.env["EVERSTEP_API_KEY"])?.trim();
    if (!URL.canParse(text)) throw new TypeError(`the server's url is ${JSON.stringify(text)}: write http://host:port`);
    this.url = new URL(text);
    if (this.url.protocol !== "http:" && this.url.protocol !== "https:") {
      throw new TypeError(`the server's url is ${JSON.stringify(text)}: it begins with http:// or https://`);
    }
    if (key === undefined || key === "") {
      throw new TypeError("there is no API key: give apiKey, or set EVERSTEP_API_KEY");
    }
    if (!isHeader(key)) throw new TypeError("the API key has characters that no key has");
    this.isSecure = this.url.protocol === "https:";
    this.prefix = this.url.pathname.replace(/\/+$/, "");
    this.#headers = { authorization: `Bearer ${key}` };
  }

  get headers(): Record<string, string> {
    return this.#headers;
  }

  /** What node:http is asked with. */
  options(method: string, path: string): https.RequestOptions {
    const { hostname, port } = this.url;
    const host = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
    return { method, host, port: port === "" ? undefined : port, path: this.prefix + path };
  }

  request(options: https.RequestOptions): http.ClientRequest {
    return this.isSecure ? https.request(options) : http.request(options);
  }
}

export class Http {
  isClosed = false;
  private readonly agent: http.Agent;

  constructor(
    readonly address: Address,
    maxSockets: number,
  ) {
    // A connection that is idle for long may be closed by the server just when a request is sent: it is given up before.
    const options = { keepAlive: true, noDelay: true, maxSockets, scheduling: "lifo" as const, timeout: 15_000 };
    this.agent = address.isSecure ? new https.Agent(options) : new http.Agent(options);
  }

  /** Sends one request. Rejects with an `ApiError` of status 0 if there is no answer. */
  send(method: string, path: string, body: string | undefined, options: RequestOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers: Record<string, string | number> = { ...this.address.headers, accept: "application/json", ...options.headers };
      if (body !== undefined) {
        headers["content-type"] = "application/json";
        headers["content-length"] = Buffer.byteLength(body);
      }
      const fail = (error: Error) => {
        const detail = `${method} ${path}: ${error.message || (error as { code?: string }).code || "no answer"}`;
        reject(new ApiError(0, "NO_ANSWER", detail, undefined, { cause: error }));
      };
      const request = this.address.request({
        ...this.address.options(method, path),
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
      // Text would be sent along with the headers, in one encoding: those that are bytes already would be encoded twice.
      request.end(body === undefined || options.headers === undefined ? body : Buffer.from(body));
    });
  }

  close(): void {
    this.isClosed = true;
    this.agent.destroy();
  }
}

/** Whether a header may have this value. */
export function isHeader(value: string): boolean {
  try {
    http.validateHeaderValue("value", value);
    return true;
  } catch {
    return false;
  }
}

/** The problem that an answer tells of. */
export function problemOf(status: number, text: string): ApiError {
  try {
    return problem(status, JSON.parse(text));
  } catch {
    return new ApiError(status, "UNEXPECTED_ANSWER", `the answer has status ${status} and is no problem document: ${text.slice(0, 200)}`);
  }
}

/** A problem document as an error. */
export function problem(status: number, document: { code?: unknown; detail?: unknown; hint?: unknown; status?: unknown }): ApiError {
  const { code, detail, hint } = document;
  if (typeof code !== "string") throw new TypeError("this is no problem document");
  const number = typeof document.status === "number" ? document.status : status;
  return new ApiError(number, code, typeof detail === "string" ? detail : code, typeof hint === "string" ? hint : undefined);
}
