// A client of the TypeScript SDK that waits for the end of a run.
//
// Reads one line of JSON: {url, apiKey, workflow, run, options}. Prints `waiting` before it calls the SDK, and then one
// line of JSON: {output}, or {error: {name, code, reason, status}}. The end of its input ends it at once.

import readline from 'node:readline';

import { createWorkflowClient } from '../../typescript/dist/src/client.js';

const lines = readline.createInterface({ input: process.stdin });
const { url, apiKey, workflow, run, options } = JSON.parse(await new Promise((resolve) => lines.once('line', resolve)));
lines.on('close', () => process.exit(1));

const client = createWorkflowClient({ url, apiKey });
console.log('waiting');
let result;
try {
  const { output } = await client.runs.wait(workflow, run, options);
  result = { output };
} catch (error) {
  const { name, code, reason, status } = error;
  result = { error: { name, code, reason, status } };
}
console.log(JSON.stringify(result));
process.exit(0);
