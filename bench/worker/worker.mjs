// The worker of `everstep-lab bench code`: workflows that do nothing, so that the engine and the SDK are what is measured.
//
// It reads commands from standard input and prints its measurements on standard output, one JSON document per line:
// {"ready": {…}} once it serves; after "count" {"ended": n} whenever n more runs have ended;
// after "tell" {"times": {…}}, the measurements since the previous command. It ends with its input.

import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";

const { values } = parseArgs({
  options: {
    sdk: { type: "string" },
    url: { type: "string" },
    carrier: { type: "string" },
    capacity: { type: "string" },
  },
});
const { workflow, serve } = await import(pathToFileURL(`${values.sdk}/dist/src/index.js`).href);
const { name, version } = JSON.parse(readFileSync(`${values.sdk}/package.json`, "utf8"));

/** More would only repeat them, and take memory. */
const SAMPLES_MAX = 200_000;
let times = { runs: [], steps: [] };
const began = new Map();
let isCounting = false;
let ended = 0;

const NAMES = Array.from({ length: 500 }, (_, n) => `step-${n + 1}`);

const chain = workflow({
  name: "chain",
  version: 1,
  run: async (ctx) => {
    let sum = 0;
    for (let n = 0; n < 10; n++) {
      const called = performance.now();
      const { value } = await ctx.step.run(NAMES[n], () => ({ value: n }));
      if (times.steps.length < SAMPLES_MAX) times.steps.push(performance.now() - called);
      sum += value;
    }
    return sum;
  },
});

const fan = workflow({
  name: "fan",
  version: 1,
  run: async (ctx) => {
    const outputs = await Promise.all(NAMES.map((name, n) => ctx.step.run(name, () => ({ value: n }))));
    return outputs.length;
  },
});

const nothing = workflow({ name: "nothing", version: 1, run: async () => null });

const nap = workflow({ name: "nap", version: 1, run: (ctx) => ctx.step.sleep("nap", "1h") });

const worker = serve({
  url: values.url,
  transport: values.carrier,
  concurrency: Number(values.capacity),
  workflows: [chain, fan, nothing, nap],
});

// Only the SDK knows when a turn arrives and when its end is acknowledged, and it has no public hook for either. The
// worker's active runs have one method for each.
watch("turn", ({ run }) => began.set(run, performance.now()));
watch("drop", ({ id, isRevoked }) => {
  const at = began.get(id);
  began.delete(id);
  if (at === undefined || isRevoked) return;
  if (times.runs.length < SAMPLES_MAX) times.runs.push(performance.now() - at);
  if (!isCounting) return;
  ended += 1;
  if (ended === 1) process.nextTick(tellEnded);
});

function watch(method, observe) {
  const inner = worker.runs?.[method];
  if (typeof inner !== "function") throw new Error(`the SDK's active runs have no method ${method}: change bench/worker`);
  worker.runs[method] = function (subject) {
    observe(subject);
    return inner.call(this, subject);
  };
}

function tellEnded() {
  tell({ ended });
  ended = 0;
}

function tell(news) {
  process.stdout.write(`${JSON.stringify(news)}\n`);
}

const orders = {
  count() {
    isCounting = true;
  },
  tell() {
    tell({ times });
    times = { runs: [], steps: [] };
  },
};

createInterface({ input: process.stdin })
  .on("line", (order) => orders[order]())
  // The benchmark has ended.
  .on("close", () => process.exit(0));

worker.closed.catch((error) => {
  console.error(`the server will not have the worker: ${error.message}`);
  process.exit(1);
});
await worker.ready;
tell({ ready: { node: process.version, sdk: `${name} ${version}` } });
