// The client of `everstep-lab bench code-client`: it starts runs of the worker's workflow `chain` with the client of the
// SDK, one call for each, waits for each of them with another call, and keeps a constant number of them in flight.
//
// It prints one JSON document per line on standard output: {"ready": {…}}, and {"ended": n} soon after n more runs
// have ended. It ends with its input.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";

const { values } = parseArgs({
  options: {
    sdk: { type: "string" },
    url: { type: "string" },
    "in-flight": { type: "string" },
  },
});
const { createWorkflowClient } = await import(pathToFileURL(`${values.sdk}/dist/src/client.js`).href);
const { name, version } = JSON.parse(readFileSync(`${values.sdk}/package.json`, "utf8"));

/** The sum of the steps of `chain`. */
const OUTPUT = 45;
/** The benchmark measures for seconds: a line per turn of the event loop would cost both processes more than the report is worth. */
const REPORT_AFTER_MS = 20;
const client = createWorkflowClient({ url: values.url });
let ended = 0;

async function keepRunning() {
  for (;;) {
    const { runId } = await client.start("chain", { n: 1 });
    const { output } = await client.runs.wait("chain", runId);
    if (output !== OUTPUT) throw new Error(`run ${runId} has the output ${JSON.stringify(output)}`);
    ended += 1;
    if (ended === 1) setTimeout(reportEnded, REPORT_AFTER_MS);
  }
}

function reportEnded() {
  tell({ ended });
  ended = 0;
}

function tell(news) {
  process.stdout.write(`${JSON.stringify(news)}\n`);
}

// The benchmark has ended.
process.stdin.on("end", () => process.exit(0)).resume();

tell({ ready: { node: process.version, sdk: `${name} ${version}` } });
const callers = Array.from({ length: Number(values["in-flight"]) }, keepRunning);
Promise.all(callers).catch((error) => {
  console.error(`the client has failed: ${error.stack}`);
  process.exit(1);
});
