#!/usr/bin/env node
// Measures Everstep beside other engines on this machine, in turn. README.md describes the method.
//
//   node bench/peers/run.mjs --rounds 3
//   node bench/peers/run.mjs --engines everstep,dbos-rust --rows w1,w4 --seconds 5 --json figures.json

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

import * as dbosRust from './dbos-rust/peer.mjs';
import * as dbosTypescript from './dbos-typescript/peer.mjs';
import * as everstep from './everstep/peer.mjs';
import { busyShare } from './lib/machine.mjs';
import { endAll, within } from './lib/process.mjs';
import { printTables } from './lib/tables.mjs';
import { ROWS } from './lib/rows.mjs';
import * as restate from './restate/peer.mjs';

/** The engines. Everstep is measured on both of its databases. */
const ENGINES = {
  everstep: { ...everstep, start: (context) => everstep.start(context, 'postgres') },
  'everstep-sqlite': { ...everstep, start: (context) => everstep.start(context, 'sqlite') },
  restate,
  'dbos-typescript': dbosTypescript,
  'dbos-rust': dbosRust,
};
/** Above this share of processor time of other programs, figures are not meaningful. */
const BUSY_SHARE_MAX = 0.1;
/** The calls in progress at the end of a measurement, and the runs of started workflows, end within this time. */
const DRAIN_MAX_MS = 120_000;
const USAGE = `usage: node bench/peers/run.mjs [--rounds 3] [--seconds 10] [--engines ${Object.keys(ENGINES).join(',')}]
         [--rows ${Object.keys(ROWS).join(',')}] [--server BINARY] [--data FOLDER] [--json FILE]`;

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    engines: { type: 'string', default: Object.keys(ENGINES).join(',') },
    rows: { type: 'string', default: Object.keys(ROWS).join(',') },
    server: { type: 'string' },
    data: { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const names = chosen(options.engines, ENGINES);
const rows = chosen(options.rows, ROWS);
const rounds = Number(options.rounds);
const seconds = Number(options.seconds);
if (options.help || !names || !rows || !(rounds >= 1) || !(seconds > 0)) {
  console.error(USAGE);
  process.exit(options.help ? 0 : 2);
}

const context = { server: options.server, place: options.data };
for (const install of new Set(names.map((name) => ENGINES[name].install))) install(context);
const versions = Object.fromEntries(names.map((name) => [name, ENGINES[name].versions(context)]));
const machine = { cores: os.availableParallelism(), model: os.cpus()[0]?.model, memoryGb: Math.round(os.totalmem() / 2 ** 30), kernel: os.release() };
const results = [];
for (let round = 0; round < rounds; round++) {
  const busy = await busyShare(1_000);
  if (busy > BUSY_SHARE_MAX) console.error(`round ${round + 1}: other programs use ${Math.round(100 * busy)} % of the processors`);
  // Each round begins with another engine.
  const order = names.map((_, place) => names[(place + round) % names.length]);
  const figures = {};
  for (const name of order) figures[name] = await measureEngine(name);
  results.push({ at: new Date().toISOString(), busy, order, figures });
}

const report = { machine, versions, seconds, rows: Object.fromEntries(rows.map((row) => [row, ROWS[row]])), rounds: results };
printTables(report, names, rows);
if (options.json) fs.writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
else console.log(JSON.stringify(report));
const hasFailed = results.some(({ figures }) => Object.values(figures).some((one) => Object.values(one).some(({ error }) => error !== undefined)));
process.exit(hasFailed ? 1 : 0);

/** The names in a list that is separated by commas; undefined if one of them does not exist. */
function chosen(list, known) {
  const all = list.split(',').filter(Boolean);
  return all.length > 0 && all.every((name) => name in known) ? all : undefined;
}

/** Starts an engine on a fresh database, measures all rows, and stops it. After a row that does not end, no other row is measured. */
async function measureEngine(name) {
  const figures = {};
  try {
    const engine = await ENGINES[name].start(context);
    for (const row of rows) {
      const figure = engine.measure(row, seconds).then(({ id: _, ...rest }) => rest, failure);
      figures[row] = await within(1_250 * seconds + DRAIN_MAX_MS, figure);
      const { error, value } = figures[row];
      console.error(`${path.join(name, row)}: ${error ?? `${value.toFixed(ROWS[row].isTime ? 2 : 0)} ${ROWS[row].unit}`}`);
    }
    await engine.stop();
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    for (const row of rows) figures[row] ??= failure(error);
  }
  // No process of an engine runs beside the next one, even if this one has failed.
  await endAll();
  return figures;
}

function failure(error) {
  return { error: error.message };
}
