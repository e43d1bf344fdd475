// Reads scenarios. Unknown members are rejected: a misspelt expectation would have no effect.

import fs from 'node:fs';
import path from 'node:path';

const STORES = ['sqlite', 'postgres'];
const TRANSPORTS = ['socket', 'http'];
const SCENARIO = ['proves', 'requirements', 'stores', 'transports', 'servers', 'settings', 'programs', 'proxies', 'workers', 'do', 'expect'];
const WORKER = ['serves', 'via', 'transport', 'concurrency'];
const SERVED = ['workflow', 'version', 'retention', 'inputSchema', 'triggers', 'program'];
const EXPECTED = ['run', 'status', 'output', 'error', 'unawaited', 'waitingFor', 'version', 'journal', 'entries', 'data', 'steps', 'ran', 'noted', 'by', 'values', 'tookMs', 'medianMs', 'signalled'];

const TOGETHER = ['workflow', 'as', 'count', 'input', 'key', 'runs', 'expect'];

/** The members of an action, by its verb. */
const VERBS = {
  start: ['as', 'input', 'count', 'version', 'key', 'retentionDays', 'allowUnserved', 'status', 'expect'],
  together: ['permissions', 'timeout', 'isAwaited'],
  worker: ['mayDie'],
  kill: [],
  stop: [],
  continue: [],
  drain: [],
  ended: [],
  killServer: [],
  stopServer: [],
  startServer: [],
  ask: [],
  open: [],
  await: ['run', 'times'],
  signal: ['run', 'payload', 'spreadMs', 'around', 'buffer', 'expect'],
  publish: ['as', 'data', 'id', 'source', 'subject', 'count', 'waitSeconds', 'expect'],
  triggered: ['by', 'as', 'count'],
  define: ['definition'],
  act: ['run', 'isChild', 'by', 'version', 'comment', 'data', 'status', 'expect'],
  cancel: ['expect'],
  pause: ['expect'],
  resume: ['expect'],
  wait: ['as', 'whilePaused', 'timeout'],
  waited: ['expect'],
  proxy: ['reports', 'cut'],
  check: EXPECTED.filter((name) => name !== 'run'),
};
const AWAITED = ['note', 'entry', 'status', 'proxy', 'passed'];

/** Every scenario of a folder, in the order of their names. */
export function readScenarios(folder) {
  const files = fs.readdirSync(folder).filter((file) => file.endsWith('.json')).sort();
  return files.map((file) => {
    const name = path.basename(file, '.json');
    try {
      return check(name, JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')));
    } catch (error) {
      throw new Error(`scenario ${name}: ${error.message}`);
    }
  });
}

function check(name, scenario) {
  known('a scenario', scenario, SCENARIO);
  const { proves, requirements = [], stores = STORES, transports = ['socket'], workers, programs } = scenario;
  if (typeof proves !== 'string') throw new Error('it does not say what it proves');
  if (!requirements.every(Number.isInteger)) throw new Error('requirements are numbers');
  oneOf('store', stores, STORES);
  oneOf('transport', transports, TRANSPORTS);
  for (const [worker, options] of Object.entries(workers)) {
    known(`worker ${worker}`, options, WORKER);
    for (const served of options.serves) {
      known(`what worker ${worker} serves`, served, SERVED);
      if (!programs[served.program ?? served.workflow]) throw new Error(`there is no program for ${served.workflow}`);
    }
  }
  for (const proxy of Object.values(scenario.proxies ?? {})) known('a proxy', proxy, ['kind', 'reports']);
  for (const action of scenario.do) {
    const verb = verbOf(action);
    known(`the action ${verb}`, action, [verb, ...VERBS[verb]]);
    if (verb === 'together') for (const starts of action.together) known('a list of starts', starts, TOGETHER);
    if (verb === 'await') known('what is awaited', action.await, [...AWAITED, 'run', 'times', 'server']);
  }
  for (const expected of scenario.expect ?? []) known('an expectation', expected, EXPECTED);
  return { ...scenario, name, requirements, stores, transports };
}

export function verbOf(action) {
  const verb = Object.keys(action).find((key) => key in VERBS);
  if (!verb) throw new Error(`${JSON.stringify(action)} is no action; there are ${Object.keys(VERBS).join(', ')}`);
  return verb;
}

function known(what, value, names) {
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown) throw new Error(`${what} has no ${JSON.stringify(unknown)}; there are ${names.join(', ')}`);
}

function oneOf(what, values, choices) {
  const wrong = values.find((value) => !choices.includes(value));
  if (wrong) throw new Error(`${wrong} is no ${what}; there are ${choices.join(', ')}`);
}
