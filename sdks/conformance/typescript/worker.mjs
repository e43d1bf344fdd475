// A worker of the TypeScript SDK that plays the workflows of a scenario.
//
// Reads one line of JSON: {name, url, apiKey, transport, concurrency, ledger, workflows: [{name, version, retention, inputSchema, triggers, program}]}.
// SIGTERM ends it in order; the end of its input ends it at once.

import http from 'node:http';
import readline from 'node:readline';

import { NonRetriableError, serve, workflow } from '../../typescript/dist/src/runtime.js';

import { playProgram } from './program.mjs';

const lines = readline.createInterface({ input: process.stdin });
const config = JSON.parse(await new Promise((resolve) => lines.once('line', resolve)));
lines.on('close', () => process.exit(1));

const agent = new http.Agent({ keepAlive: true });
const tools = {
  note: async (ctx, step, what, value) => {
    return (await tell('/note', { run: ctx.run.id, step, what, worker: config.name, value })).nth;
  },
  gate: (ctx, step, gate) => tell('/gate', { run: ctx.run.id, step, gate }),
  crash: () => process.kill(process.pid, 'SIGKILL'),
  error: (message, isRetriable) => (isRetriable ? new Error(message) : new NonRetriableError(message)),
};

const workflows = config.workflows.map(({ name, version, retention, inputSchema, triggers, program }) => {
  const definition = { name, version, run: (ctx, input) => playProgram(ctx, program, input, tools) };
  if (retention) definition.retention = retention;
  if (inputSchema) definition.inputSchema = inputSchema;
  if (triggers) definition.triggers = triggers;
  return workflow(definition);
});
const { url, apiKey, transport, concurrency } = config;
const worker = serve({ url, apiKey, transport, concurrency, workflows });
process.once('SIGTERM', async () => {
  await worker.stop();
  process.exit(0);
});

/** Sends an entry to the ledger. It is not repeated: the ledger counts what happened. */
function tell(path, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(`${config.ledger}${path}`, { method: 'POST', agent }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve(JSON.parse(text)));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(JSON.stringify(body));
  });
}
