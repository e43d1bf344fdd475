// Requests to the server.

import { isObject } from "../lib/json";
import { ApiProblem } from "./problem";
import { dropSession, sessionStore } from "./session";
import type { Routes } from "./types";

export type RouteName = keyof Routes;
type QueryOf<R> = R extends { query: infer Query } ? Query : Record<never, never>;
type BodyOf<R> = R extends { body: infer Body } ? Body : undefined;
export type AnswerOf<Name extends RouteName> = Routes[Name] extends { answer: infer Answer } ? Answer : undefined;

export interface CallOptions<Name extends RouteName> {
  /** The values of `{name}` in the path. */
  path?: Record<string, string>;
  query?: QueryOf<Routes[Name]> | URLSearchParams;
  body?: BodyOf<Routes[Name]>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The time after which a GET is repeated, if the server does not say. */
const RETRY_AFTER_DEFAULT = 1;
const RETRY_AFTER_MAX = 5;

/** Calls a route. A failure is an `ApiProblem`. */
export async function call<Name extends RouteName>(
  name: Name,
  options: CallOptions<Name> = {},
): Promise<AnswerOf<Name>> {
  const [method = "GET", template = "/"] = name.split(" ");
  const url = address(template, options.path ?? {}, options.query ?? {});
  const init = prepare(method, options.body, options.headers ?? {}, options.signal);
  let response = await send(url, init);
  if (response.status === 503 && method === "GET") {
    const seconds = Number(response.headers.get("retry-after") ?? RETRY_AFTER_DEFAULT);
    await wait(Math.min(seconds, RETRY_AFTER_MAX) * 1_000, options.signal);
    response = await send(url, init);
  }
  if (!response.ok) throw await readProblem(response, requestId(init));
  return (await readAnswer(response)) as AnswerOf<Name>;
}

export function address(
  template: string,
  values: Record<string, string>,
  query: Record<string, unknown> | URLSearchParams,
): string {
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  const params = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null && value !== "") params.append(name, String(value));
    }
  }
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

function prepare(method: string, body: unknown, more: Record<string, string>, signal?: AbortSignal): RequestInit {
  const headers: Record<string, string> = { accept: "application/json", "x-request-id": crypto.randomUUID(), ...more };
  const session = sessionStore.get();
  if (session && !headers.authorization) headers.authorization = `Bearer ${session.credential}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  return {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
    signal,
  };
}

function requestId(init: RequestInit): string {
  return (init.headers as Record<string, string>)["x-request-id"] ?? "";
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    const detail = error instanceof Error ? error.message : String(error);
    throw new ApiProblem({ status: 0, code: "UNREACHABLE", detail, requestId: requestId(init) });
  }
}

async function readAnswer(response: Response): Promise<unknown> {
  if (response.status === 204) return undefined;
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

async function readProblem(response: Response, id: string): Promise<ApiProblem> {
  const body: unknown = await response.json().catch(() => null);
  const { code, detail, hint, type, title, status, ...more } = isObject(body) ? body : ({} as Record<string, unknown>);
  const problem = new ApiProblem({
    status: response.status,
    code: typeof code === "string" ? code : `HTTP_${response.status}`,
    detail: typeof detail === "string" ? detail : response.statusText,
    hint: typeof hint === "string" ? hint : null,
    requestId: id,
    more,
  });
  // A credential that is revoked or expired is of no use to any page.
  if (response.status === 401 && sessionStore.get() !== null) dropSession();
  return problem;
}

function wait(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
