// Handles promises that are rejected before the function awaits them.
//
// An async helper that is started now and awaited later has its own promise, which has no handler until then. If its
// step fails before, Node.js would end the process, and then the process of every worker that replays the function.
// This module logs a warning instead.

import { causeOf, messageOf } from "./reported-error.js";
import type { Replay } from "./replay.js";

/** How many causes are followed: they may form a cycle. */
const CAUSES_MAX = 100;

interface ErrorSource {
  replay: Replay;
  step: string | undefined;
}

const sources = new WeakMap<object, ErrorSource>();
/** Promises that were rejected before the function awaited them. */
const early = new WeakMap<object, Replay>();
let patchedEmit: typeof process.emit | undefined;

/** Marks an error that this replay passes to the function. */
export function markError<E extends object>(error: E, replay: Replay, step?: string): E {
  sources.set(error, { replay, step });
  // Other code may have restored the original function.
  if (process.emit !== patchedEmit) patchEmit();
  return error;
}

/**
 * Intercepts the events of such promises and passes on all others. A listener cannot replace the patch: listeners of
 * test runners and of the program would receive the events too, and in a process without other listeners it would keep
 * other rejections from ending the process. The patch is never removed: promises of a worker may reject after it has
 * stopped.
 */
function patchEmit(): void {
  const emit = process.emit as (...event: unknown[]) => boolean;
  patchedEmit = ((...event: unknown[]) => isIntercepted(event) || emit.apply(process, event)) as typeof process.emit;
  process.emit = patchedEmit;
}

function isIntercepted([name, value, promise]: unknown[]): boolean {
  if (name === "rejectionHandled") {
    const replay = early.get(value as object);
    replay?.rejected?.delete(value as object);
    return replay !== undefined;
  }
  const source = name === "unhandledRejection" ? sourceOf(value) : undefined;
  if (source === undefined) return false;
  const { replay, step } = source;
  early.set(promise as object, replay);
  if (step !== undefined) {
    replay.rejected ??= new Map();
    replay.rejected.set(promise as object, step);
  }
  // The line belongs to the run, because the step has ended.
  const fields = step === undefined ? undefined : { step };
  replay.host.writeLog("warn", `a promise was rejected before the function awaits it: ${messageOf(value)}`, fields, replay, undefined);
  return true;
}

/** The step whose failure this error is, or was caused by. Undefined for an error that the function created itself. */
export function stepOf(error: unknown, replay: Replay): string | undefined {
  const source = sourceOf(error);
  return source?.replay === replay ? source.step : undefined;
}

/** The source of an error, or of the first of its causes that has one. */
function sourceOf(error: unknown): ErrorSource | undefined {
  for (let depth = 0; typeof error === "object" && error !== null && depth < CAUSES_MAX; depth++) {
    const source = sources.get(error);
    if (source !== undefined) return source;
    error = causeOf(error);
  }
  return undefined;
}
