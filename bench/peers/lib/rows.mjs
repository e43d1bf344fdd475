// The rows of the comparison. Every engine executes the same three workflows:
//
//   chain    10 steps, one after the other; the output is {n, sum} with the sum of the steps' values
//   fan      500 parallel steps; the output is the same
//   nothing  no steps; the output is {n}
//
// `callers` has one entry per connection: {run(workflow, n), start(n)}. The output of every run is checked.

export const CHAIN_STEPS = 10;
export const FAN_STEPS = 500;
const START_CONNECTIONS = 64;

export const ROWS = {
  w1: { title: 'W1: run of 10 steps, one in flight', unit: 'ms', isTime: true },
  'w2-64': { title: 'W2: runs of 10 steps, 64 in flight', unit: 'steps/s' },
  'w2-256': { title: 'W2: runs of 10 steps, 256 in flight', unit: 'steps/s' },
  w3: { title: 'W3: run of 500 parallel steps', unit: 'ms', isTime: true },
  w4: { title: 'W4: starts on 64 connections, one request each', unit: 'starts/s' },
};

/** How many callers a row needs. */
export function callersOf(row) {
  return { w1: 1, 'w2-64': 64, 'w2-256': 256, w3: 1, w4: START_CONNECTIONS }[row];
}

/** The expected output of a run. */
export function outputOf(workflow, n) {
  if (workflow === 'nothing') return { n };
  const steps = workflow === 'chain' ? CHAIN_STEPS : FAN_STEPS;
  return { n, sum: (steps * (steps - 1)) / 2 };
}

/** Throws unless the output of a run is the expected one. */
export function checkOutput(workflow, n, output) {
  const expected = outputOf(workflow, n);
  if (output?.n !== expected.n || output.sum !== expected.sum) {
    throw new Error(`${workflow} ${n}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(output)}`);
  }
}

/** Measures a row for some seconds. A quarter of them passes before as a warm-up. */
export async function measure(row, callers, seconds) {
  let n = 0;
  const run = async (caller, workflow) => {
    const number = ++n;
    checkOutput(workflow, number, await caller.run(workflow, number));
  };
  switch (row) {
    case 'w1':
      return latency(() => run(callers[0], 'chain'), seconds);
    case 'w3':
      return latency(() => run(callers[0], 'fan'), seconds);
    case 'w2-64':
    case 'w2-256': {
      const { rate, count } = await throughput(callers, (caller) => run(caller, 'chain'), seconds);
      return { value: rate * CHAIN_STEPS, count };
    }
    case 'w4': {
      const { rate, count, all } = await throughput(callers, (caller) => caller.start(++n), seconds);
      return { value: rate, count, started: all };
    }
    default:
      throw new Error(`there is no row ${row}; there are ${Object.keys(ROWS).join(', ')}`);
  }
}

/** The times of calls, one after the other: the median in milliseconds. */
async function latency(call, seconds) {
  const times = [];
  const warm = performance.now() + (1_000 * seconds) / 4;
  const end = warm + 1_000 * seconds;
  for (let began = performance.now(); began < end; ) {
    await call();
    const ended = performance.now();
    if (began >= warm) times.push(ended - began);
    began = ended;
  }
  times.sort((a, b) => a - b);
  if (times.length === 0) throw new Error('no call has ended in time: measure for more --seconds');
  return { value: percentile(times, 0.5), p99: percentile(times, 0.99), count: times.length };
}

/** Calls per second of all callers together, each with one call in progress. */
async function throughput(callers, call, seconds) {
  const warm = performance.now() + (1_000 * seconds) / 4;
  const end = warm + 1_000 * seconds;
  let [count, all] = [0, 0];
  const loop = async (caller) => {
    while (performance.now() < end) {
      await call(caller);
      all += 1;
      const now = performance.now();
      if (now >= warm && now < end) count += 1;
    }
  };
  await Promise.all(callers.map(loop));
  if (count === 0) throw new Error('no call has ended in time: measure for more --seconds');
  return { rate: count / seconds, count, all };
}

function percentile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
