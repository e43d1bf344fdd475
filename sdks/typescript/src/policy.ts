// Names, retry policies and errors as the journal wants them.

import { milliseconds } from "./duration.js";
import type { RetryOptions } from "./types.js";
import type { Fault, Retry } from "./wire.js";

const NAME = /^[a-zA-Z0-9._-]{1,128}$/;

/** Throws unless it is a step's name. */
export function checkName(name: string): void {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new TypeError(`a step's name has 1 to 128 letters, digits, dots, underscores and hyphens: ${JSON.stringify(name)} is none`);
  }
}

export const RETRY: Retry = { attempts: 3, backoff: { kind: "exp", baseMs: 1_000, maxMs: 60_000, jitter: 0.2 } };

/** The retry policy of options. */
export function retryOf(options: RetryOptions | undefined): Retry {
  if (options === undefined) return RETRY;
  const { attempts = RETRY.attempts, backoff = {} } = options;
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > 1_000) throw new TypeError(`retry.attempts is a whole number from 1 to 1,000, not ${attempts}`);
  const { kind = "exp", base = 1_000, max, jitter = 0.2 } = backoff;
  if (kind !== "fixed" && kind !== "linear" && kind !== "exp") {
    throw new TypeError(`retry.backoff.kind is "fixed", "linear" or "exp", not ${JSON.stringify(kind)}`);
  }
  if (!(jitter >= 0 && jitter <= 1)) throw new TypeError(`retry.backoff.jitter is a number from 0 to 1, not ${jitter}`);
  const baseMs = milliseconds(base, "retry.backoff.base");
  const maxMs = max === undefined ? Math.max(60_000, baseMs) : milliseconds(max, "retry.backoff.max");
  return { attempts, backoff: { kind, baseMs, maxMs, jitter } };
}

/** Bytes of a message or stack that the journal is given at most. */
const LONG = 8_192;

/** An error as the journal keeps it. */
export function fault(error: unknown): Fault {
  if (!(error instanceof Error)) return { message: messageOf(error).slice(0, LONG) };
  const found: Fault = { message: messageOf(error).slice(0, LONG) };
  const code = (error as { code?: unknown }).code;
  if (typeof code === "string" && code !== "" && code.length <= 128) found.code = code;
  if (error.stack !== undefined) found.stack = error.stack.slice(0, LONG);
  return found;
}

/** What an error says. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : error.message;
}
