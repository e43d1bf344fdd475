// An application with DBOS TypeScript. W1 to W3 call the workflows in the process; starts arrive over HTTP.

import http from 'node:http';
import { DBOS } from '@dbos-inc/dbos-sdk';
import { obey, tell } from '../lib/orders.mjs';
import { callersOf, CHAIN_STEPS, FAN_STEPS, measure } from '../lib/rows.mjs';

let executed = 0;
const NAMES = Array.from({ length: FAN_STEPS }, (_, n) => `step-${n}`);

const chain = DBOS.registerWorkflow(
  async ({ n }) => {
    let sum = 0;
    for (let i = 0; i < CHAIN_STEPS; i++) sum += (await DBOS.runStep(async () => ({ value: i }), { name: NAMES[i] })).value;
    return { n, sum };
  },
  { name: 'chain' },
);

const fan = DBOS.registerWorkflow(
  async ({ n }) => {
    const outputs = await Promise.all(NAMES.map((name, i) => DBOS.runStep(async () => ({ value: i }), { name })));
    return { n, sum: outputs.reduce((sum, { value }) => sum + value, 0) };
  },
  { name: 'fan' },
);

const nothing = DBOS.registerWorkflow(
  async ({ n }) => {
    executed += 1;
    return { n };
  },
  { name: 'nothing' },
);

DBOS.setConfig({
  name: 'everstep-peer',
  applicationVersion: '1',
  systemDatabaseUrl: process.env.DBOS_SYSTEM_DATABASE_URL,
  runAdminServer: false,
  logLevel: 'error',
});
await DBOS.launch();

// A registered workflow must not be called as the method of another object.
const caller = { run: (workflow, n) => (workflow === 'chain' ? chain({ n }) : fan({ n })) };

const server = http.createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const answer = (status, document) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document));
  try {
    // Resolves when the start is in the database.
    const handle = await DBOS.startWorkflow(nothing)(JSON.parse(text));
    answer(201, { id: handle.workflowID });
  } catch (error) {
    answer(500, { error: String(error) });
  }
});
server.listen(0, '127.0.0.1', () => {
  obey({
    count: () => ({ count: executed }),
    measure: ({ row, seconds }) => measure(row, Array(callersOf(row)).fill(caller), seconds),
  });
  tell({ ready: true, port: server.address().port });
});
