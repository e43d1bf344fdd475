// Waits for what is to happen, never for time to pass.

/** How long anything may take before a scenario has failed. */
export const WAIT_TIMEOUT_MS = 30_000;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Looks again and again until there is something to see, and returns it. `look` says `undefined` while there is not. */
export async function until(what, look, { timeoutMs = WAIT_TIMEOUT_MS, intervalMs = 10 } = {}) {
  const deadline = Date.now() + timeoutMs;
  let last;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
      last = undefined;
    } catch (error) {
      // A server that is being restarted is not there for a while.
      if (!error.isConnection) throw error;
      last = error;
    }
    if (Date.now() > deadline) {
      const why = last ? `: ${last.message}` : '';
      throw new Error(`waited ${timeoutMs / 1000} s for ${what}${why}`);
    }
    await pause(intervalMs);
  }
}
