// An engine that clients call over HTTP.

import { HttpConnection } from './http.mjs';
import { until } from './process.mjs';
import { callersOf, measure } from './rows.mjs';

/**
 * Measures a row with one connection per caller.
 *
 * `run(connection, workflow, n)` executes a run and returns its output, `start(connection, n)` starts a run of the
 * workflow `nothing`, and `executed()` is the number of its executions so far.
 */
export async function measureHttp(row, seconds, { port, run, start, executed }) {
  const connections = await Promise.all(Array.from({ length: callersOf(row) }, () => HttpConnection.open(port)));
  const callers = connections.map((connection) => ({
    run: (workflow, n) => run(connection, workflow, n),
    start: (n) => start(connection, n),
  }));
  try {
    const before = row === 'w4' ? await executed() : 0;
    const figure = await measure(row, callers, seconds);
    if (row === 'w4') figure.drainMs = await drain(before + figure.started, executed);
    return figure;
  } finally {
    for (const connection of connections) connection.close();
  }
}

/** Waits until every started run has been executed, and checks that none was executed twice. Returns the milliseconds. */
async function drain(expected, executed) {
  const began = performance.now();
  let count = 0;
  await until(`${expected} executions`, async () => {
    count = await executed();
    return count >= expected;
  });
  if (count !== expected) throw new Error(`${count} executions of ${expected} runs`);
  return performance.now() - began;
}

/** Throws unless the response has one of these statuses. Returns its body. */
export function bodyOf({ status, text }, ...statuses) {
  if (!statuses.includes(status)) throw new Error(`status ${status}: ${text.slice(0, 500)}`);
  return JSON.parse(text);
}
