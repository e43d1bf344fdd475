#!/usr/bin/env node
// Runs the scenarios of this folder against a built server, with the workers of an SDK.
//
//   node run.mjs --server target/debug/everstep --store sqlite
//   node run.mjs --server target/debug/everstep --store postgres --database postgres://postgres@127.0.0.1:5432/postgres

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { Environments } from './runner/environments.mjs';
import { runScenario } from './runner/actions.mjs';
import { readScenarios } from './runner/scenario.mjs';
import { Execution } from './runner/execution.mjs';

const FOLDER = path.dirname(fileURLToPath(import.meta.url));
const OPTIONS = {
  server: { type: 'string' },
  store: { type: 'string', default: 'sqlite' },
  database: { type: 'string' },
  sdk: { type: 'string', default: 'typescript' },
  only: { type: 'string', multiple: true },
  jobs: { type: 'string', default: '6' },
  report: { type: 'string' },
};
/** How a worker and a client of each SDK are started. */
const PROGRAMS = {
  typescript: {
    worker: [process.execPath, path.join(FOLDER, 'typescript/worker.mjs')],
    client: [process.execPath, path.join(FOLDER, 'typescript/client.mjs')],
  },
};

const { values: options } = parseArgs({ options: OPTIONS });
if (!options.server || !PROGRAMS[options.sdk] || (options.store === 'postgres') !== Boolean(options.database)) {
  console.error('usage: node run.mjs --server BINARY [--store sqlite | --store postgres --database URL] [--sdk typescript]');
  console.error('                    [--only NAME]… [--jobs 6] [--report FILE]');
  process.exit(2);
}

const scenarios = readScenarios(path.join(FOLDER, 'scenarios'));
const chosen = options.only ?? scenarios.map(({ name }) => name);
for (const name of chosen) {
  if (!scenarios.some((scenario) => scenario.name === name)) throw new Error(`there is no scenario ${name}`);
}
const wanted = scenarios.filter(({ name, stores }) => chosen.includes(name) && stores.includes(options.store));
const cases = wanted.flatMap((scenario) => scenario.transports.map((transport) => ({ scenario, transport })));
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'everstep-conformance-'));
const environments = new Environments({ binary: path.resolve(options.server), database: options.database, place });
const began = Date.now();
const report = [];

const queue = [...cases];
const lanes = Array.from({ length: Math.min(Number(options.jobs), cases.length) }, async () => {
  for (let next = queue.shift(); next; next = queue.shift()) report.push(await runCase(next));
});
await Promise.all(lanes);
await environments.close();
fs.rmSync(place, { recursive: true, force: true });

const failed = report.filter(({ problem }) => problem);
if (options.report) fs.writeFileSync(options.report, JSON.stringify(report, null, 2));
const seconds = ((Date.now() - began) / 1000).toFixed(1);
console.log(`${report.length - failed.length} of ${report.length} passed on ${options.store} in ${seconds} s`);
process.exit(failed.length > 0 ? 1 : 0);

/** Runs a scenario over one transport and returns its outcome. */
async function runCase({ scenario, transport }) {
  const began = Date.now();
  let environment;
  let execution;
  let problem;
  try {
    environment = await environments.acquire(scenario);
    const { servers, key } = environment;
    execution = await Execution.open({ scenario, transport, servers, key, programs: PROGRAMS[options.sdk] });
    await runScenario(execution);
  } catch (error) {
    const explanation = execution ? await execution.explain() : '';
    problem = `${error.isConnection || error.message ? error.message : error.stack}\n${explanation}`;
  }
  await execution?.close();
  await environment?.release();
  const ms = Date.now() - began;
  console.log(`${problem ? 'FAILED' : 'ok    '} ${scenario.name} (${transport}) ${(ms / 1000).toFixed(1)} s`);
  if (problem) console.log(problem.replace(/^/gm, '    '));
  return { name: scenario.name, transport, ms, problem };
}
