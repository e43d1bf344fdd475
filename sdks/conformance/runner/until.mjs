// Waits for conditions, never for a fixed time.

/** The time limit of every wait, after which the scenario fails. */
export const WAIT_TIMEOUT_MS = 30_000;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Repeats `look` until it returns a value other than `undefined`, and returns that value. */
export async function until(what, look, { timeoutMs = WAIT_TIMEOUT_MS, intervalMs = 10 } = {}) {
  const deadline = Date.now() + timeoutMs;
  let last;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined && seen !== false) return seen;
      last = undefined;
    } catch (error) {
      // A server that is being restarted cannot be reached for some time.
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
