// The worker of `everstep bench code`: workflows that do nothing, so that the engine and the SDK are what is measured.
//
// It takes orders on standard input and tells on standard output what it sees, a JSON document a line:
// {"ready": {…}} once it serves; after "count" {"ended": n} whenever n more runs have ended;
// after "tell" {"times": {…}}, what was seen since it was last asked. It ends with its input.

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
const MOST = 200_000;
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
      if (times.steps.length < MOST) times.steps.push(performance.now() - called);
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
