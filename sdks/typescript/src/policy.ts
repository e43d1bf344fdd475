// Names, retry policies and errors as the journal wants them.

import { milliseconds } from "./duration.js";
import { checkOptions } from "./options.js";
import type { RetryOptions } from "./types.js";
import type { Fault, Retry } from "./wire.js";

const NAME = /^[a-zA-Z0-9._-]{1,128}$/;

/** Throws unless it is a step's name. */
export function checkName(name: string): void {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new TypeError(`a step's name has 1 to 128 letters, digits, dots, underscores and hyphens: ${JSON.stringify(name)} is none`);
  }
}

/** JSON text as the journal takes it; undefined for what has none. Half of a surrogate pair, as of a text that was cut, is replaced. */
export function jsonOf(value: unknown, replacer?: (key: string, value: unknown) => unknown): string | undefined {
  const text = JSON.stringify(value, replacer);
  // Whole pairs are not escaped.
  return text?.includes("\\ud") ? text.replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\ufffd") : text;
}

export const RETRY: Retry = { attempts: 3, backoff: { kind: "exp", baseMs: 1_000, maxMs: 60_000, jitter: 0.2 } };

const OPTIONS = { attempts: true, backoff: true } as const;
const BACKOFF = { kind: true, base: true, max: true, jitter: true } as const;

/** The retry policy of options. */
export function retryOf(options: RetryOptions | undefined): Retry {
  if (options === undefined) return RETRY;
  const { attempts = RETRY.attempts, backoff = {} } = options;
  checkOptions(options, OPTIONS, "retry");
  checkOptions(backoff, BACKOFF, "retry.backoff");
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > 1_000) throw new TypeError(`retry.attempts is a whole number from 1 to 1,000, not ${attempts}`);
  const { kind = "exp", base, max, jitter = 0.2 } = backoff;
  if (kind !== "fixed" && kind !== "linear" && kind !== "exp") {
    throw new TypeError(`retry.backoff.kind is "fixed", "linear" or "exp", not ${JSON.stringify(kind)}`);
  }
  if (!(jitter >= 0 && jitter <= 1)) throw new TypeError(`retry.backoff.jitter is a number from 0 to 1, not ${jitter}`);
  const most = max === undefined ? undefined : milliseconds(max, "retry.backoff.max");
  const baseMs = base === undefined ? Math.min(1_000, most ?? 1_000) : milliseconds(base, "retry.backoff.base");
  const maxMs = most ?? Math.max(60_000, baseMs);
  if (baseMs > maxMs) throw new TypeError(`retry.backoff.base is at most retry.backoff.max: ${JSON.stringify(base)} is more than ${JSON.stringify(max)}`);
  return { attempts, backoff: { kind, baseMs, maxMs, jitter } };
}

/** Characters of a message or stack that the journal is given at most. */
const LONG = 8_192;
/** How many causes are told, each of the one before. */
const DEEP = 5;

/** An error as the journal keeps it. Anything may be thrown: this takes it, whatever it is. */
export function fault(error: unknown): Fault {
  let message = messageOf(error);
  let stack = text(error, "stack") ?? "";
  let cause = causeOf(error);
  const reason = cause === undefined ? "" : reasonOf(cause);
  if (!message.includes(reason)) message += `: ${reason}`;
  for (let depth = 0; cause !== undefined && depth < DEEP; depth++) {
    stack += `\ncaused by: ${text(cause, "stack") ?? reasonOf(cause)}`;
    cause = causeOf(cause);
  }
  const found: Fault = { message: message.slice(0, LONG) };
  const code = text(error, "code");
  if (code !== undefined && code.length <= 128) found.code = code;
  if (stack !== "") found.stack = stack.slice(0, LONG);
  return found;
}

/** What an error says. */
export function messageOf(error: unknown): string {
  try {
    if (typeof error !== "object" || error === null) return String(error);
    const { message, name } = error as { message?: unknown; name?: unknown };
    const said = message || (error instanceof Error ? name : error);
    return typeof said === "string" ? said : (JSON.stringify(said) ?? typeof said);
  } catch {
    return "something was thrown that cannot be read";
  }
}

/** What a cause says, with its code. */
function reasonOf(cause: unknown): string {
  const message = messageOf(cause);
  const code = text(cause, "code");
  if (code === undefined || message.includes(code)) return message;
  return text(cause, "message") === undefined ? code : `${code}: ${message}`;
}

export function causeOf(error: unknown): unknown {
  const errors = read(error, "errors");
  return read(error, "cause") ?? (Array.isArray(errors) ? errors[0] : undefined);
}

/** A property that is a text with something in it. */
function text(error: unknown, name: string): string | undefined {
  const value = read(error, name);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function read(error: unknown, name: string): unknown {
  try {
    return (error as Record<string, unknown> | null | undefined)?.[name];
  } catch {
    return undefined;
  }
}
