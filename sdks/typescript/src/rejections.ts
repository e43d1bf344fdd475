// Errors that reach a promise before the function awaits it.
//
// A helper that is begun now and awaited later has a promise of its own, which nobody handles until then. When its step
// fails meanwhile, Node.js would end the process, and that of every worker which replays the function. Here it is a warning.

import { causeOf, messageOf } from "./policy.js";
import type { Replay } from "./replay.js";

/** How far causes are followed: they may go round in circles. */
const DEEP = 100;

interface Raised {
  replay: Replay;
  step: string | undefined;
}

const raised = new WeakMap<object, Raised>();
/** Promises that were rejected too early. */
const early = new WeakSet<object>();
let watching: typeof process.emit | undefined;

/** An error that the function is given by this replay. */
export function raise<E extends object>(error: E, replay: Replay, step?: string): E {
  raised.set(error, { replay, step });
  // Somebody else may have put back what was there before us.
  if (process.emit !== watching) watch();
  return error;
}

/**
 * Takes what Node.js says of such promises, and leaves all else as it is. A listener would not do: test runners and
 * programs that exit have listeners too, and any other rejection would not end a process any more that has none.
 * It stays: what a worker leaves behind may reject after it has stopped.
 */
function watch(): void {
  const emit = process.emit as (...event: unknown[]) => boolean;
  watching = ((...event: unknown[]) => isTaken(event) || emit.apply(process, event)) as typeof process.emit;
  process.emit = watching;
}

function isTaken([name, value, promise]: unknown[]): boolean {
  if (name === "rejectionHandled") return early.has(value as object);
  const found = name === "unhandledRejection" ? find(value) : undefined;
  if (found === undefined) return false;
  early.add(promise as object);
  const { replay, step } = found;
  // The run says it, not the step: that has ended.
  const fields = step === undefined ? undefined : { step };
  replay.host.line("warn", `a promise was rejected that nobody awaits yet: ${messageOf(value)}`, fields, replay, undefined);
  return true;
}

/** The step of a replay whose failure an error is, or was caused by. One that the function has made itself names none. */
export function stepOf(error: unknown, replay: Replay): string | undefined {
  const found = find(error);
  return found?.replay === replay ? found.step : undefined;
}

/** Whose an error is, or the one that caused it. */
function find(error: unknown): Raised | undefined {
  for (let depth = 0; typeof error === "object" && error !== null && depth < DEEP; depth++) {
    const found = raised.get(error);
    if (found !== undefined) return found;
    error = causeOf(error);
  }
  return undefined;
}
