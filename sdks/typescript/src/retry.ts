// Retry policies of steps.

import { milliseconds } from "./duration.js";
import { checkOptions } from "./options.js";
import type { RetryOptions } from "./types.js";
import type { RetryPolicy } from "./wire.js";

export const DEFAULT_RETRY: RetryPolicy = { attempts: 3, backoff: { kind: "exp", baseMs: 1_000, maxMs: 60_000, jitter: 0.2 } };

const RETRY_OPTIONS = { attempts: true, backoff: true } as const;
const BACKOFF_OPTIONS = { kind: true, base: true, max: true, jitter: true } as const;
const ATTEMPTS_MAX = 1_000;

/** The retry policy that options describe. */
export function retryPolicy(options: RetryOptions | undefined): RetryPolicy {
  if (options === undefined) return DEFAULT_RETRY;
  const { attempts = DEFAULT_RETRY.attempts, backoff = {} } = options;
  checkOptions(options, RETRY_OPTIONS, "retry");
  checkOptions(backoff, BACKOFF_OPTIONS, "retry.backoff");
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > ATTEMPTS_MAX) {
    throw new TypeError(`retry.attempts is a whole number from 1 to 1,000, not ${attempts}`);
  }
  const { kind = "exp", base, max, jitter = 0.2 } = backoff;
  if (kind !== "fixed" && kind !== "linear" && kind !== "exp") {
    throw new TypeError(`retry.backoff.kind is "fixed", "linear" or "exp", not ${JSON.stringify(kind)}`);
  }
  if (!(jitter >= 0 && jitter <= 1)) throw new TypeError(`retry.backoff.jitter is a number from 0 to 1, not ${jitter}`);
  const givenMaxMs = max === undefined ? undefined : milliseconds(max, "retry.backoff.max");
  const baseMs = base === undefined ? Math.min(1_000, givenMaxMs ?? 1_000) : milliseconds(base, "retry.backoff.base");
  const maxMs = givenMaxMs ?? Math.max(60_000, baseMs);
  if (baseMs > maxMs) throw new TypeError(`retry.backoff.base is at most retry.backoff.max: ${JSON.stringify(base)} is more than ${JSON.stringify(max)}`);
  return { attempts, backoff: { kind, baseMs, maxMs, jitter } };
}
