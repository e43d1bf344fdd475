// A client of the TypeScript SDK that waits for the end of a run, or starts many runs at once and waits for each of them.
//
// Reads one line of JSON: {url, apiKey, workflow, run, options} or {url, apiKey, starts: [{workflow, input, options}],
// isAwaited, options}. Prints `waiting` before it calls the SDK, and then one line of JSON. The result of a run is {output},
// or {error: {name, code, reason, status}}; the result of a start also has runId and created, and status in place of
// output if the run is not awaited. The end of its input ends it at once.

import readline from 'node:readline';

import { createWorkflowClient } from '../../typescript/dist/src/client.js';

const lines = readline.createInterface({ input: process.stdin });
const { url, apiKey, workflow, run, starts, isAwaited, options } = JSON.parse(await new Promise((resolve) => lines.once('line', resolve)));
lines.on('close', () => process.exit(1));

const client = createWorkflowClient({ url, apiKey });
console.log('waiting');
const result = starts ? await Promise.all(starts.map(start)) : await resultOf(() => wait(workflow, run));
// All of the line is written before the process ends.
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));

function start({ workflow, input, options: startOptions }) {
  return resultOf(async () => {
    const { runId, created, status } = await client.start(workflow, input, startOptions);
    return { runId, created, ...(isAwaited ? await wait(workflow, runId) : { status }) };
  });
}

async function wait(workflow, run) {
  const { output } = await client.runs.wait(workflow, run, options);
  return { output };
}

async function resultOf(call) {
  try {
    return await call();
  } catch (error) {
    const { name, code, reason, status } = error;
    return { error: { name, code, reason, status } };
  }
}
