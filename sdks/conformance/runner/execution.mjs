// One execution of a scenario: its servers, workers, proxies, ledger, and the runs that it has started.

import fs from 'node:fs';
import path from 'node:path';

import { checkLaws, checkMedian, checkRun, checkSignalled, printJournal } from './check.mjs';
import { Client } from './client.mjs';
import { Ledger } from './ledger.mjs';
import { Proxy } from './proxy.mjs';
import { Waiter } from './waiter.mjs';
import { Worker } from './worker.mjs';

export class Execution {
  /** Runs by the name that the scenario gives them: `{id, workflow, signal}`. */
  runs = new Map();
  /** Ids of published events by the name that the scenario gives them. */
  events = new Map();
  workers = new Map();
  /** Clients that wait for runs, by the name that the scenario gives them. */
  waiters = new Map();
  proxies = new Map();
  /** The node that receives requests. */
  asked = 0;
  #retired = [];

  /** `servers` are those of the scenario, `key` is an admin key of its workspace. */
  static async open({ scenario, transport, servers, key, programs }) {
    const execution = new Execution();
    Object.assign(execution, { scenario, transport, servers, programs });
    execution.client = new Client(() => servers[execution.asked].port, key);
    execution.ledger = await Ledger.open();
    const made = await execution.client.expect([201], 'POST', '/v1/keys', { name: 'worker', role: 'worker' });
    execution.workerKey = made.secret;
    const ports = servers.map((server) => () => server.port);
    for (const [name, { kind, reports = 'pass' }] of Object.entries(scenario.proxies ?? {})) {
      const proxy = await Proxy.open(ports, kind);
      proxy.reports = reports;
      execution.proxies.set(name, proxy);
    }
    return execution;
  }

  async startWorker(name, mayDie = false) {
    const { serves, via = 0, concurrency = 200, transport = this.transport } = this.scenario.workers[name];
    const url = typeof via === 'string' ? this.proxies.get(via).url : `http://127.0.0.1:${this.servers[via].port}`;
    const workflows = serves.map(({ workflow, version = 1, retention, inputSchema, triggers, program = workflow }) => {
      return { name: workflow, version, retention, inputSchema, triggers, program: this.scenario.programs[program] };
    });
    const { workerKey: apiKey, ledger } = this;
    const config = { name, url, apiKey, transport, concurrency, ledger: ledger.url, workflows };
    if (this.workers.has(name)) this.#retired.push(this.workers.get(name));
    this.workers.set(name, await Worker.start(this.programs.worker, config, { list: () => this.#listed(), mayDie }));
  }

  /** Starts a client of the SDK that waits for each run of a name. */
  async startWaiters(name, run, options) {
    const url = `http://127.0.0.1:${this.servers[this.asked].port}`;
    const start = ({ id, workflow }) => {
      return Waiter.start(this.programs.client, { url, apiKey: this.client.key, workflow, run: id, options });
    };
    this.waiters.set(name, await Promise.all(this.runsOf(run).map(start)));
  }

  /** Starts runs at once through one client of the SDK. Returns their results in order. */
  async startTogether(config, permissions) {
    const url = `http://127.0.0.1:${this.servers[this.asked].port}`;
    let apiKey = this.client.key;
    if (permissions) apiKey = (await this.client.expect([201], 'POST', '/v1/keys', { name: 'client', permissions })).secret;
    const waiter = await Waiter.start(this.programs.client, { url, apiKey, ...config });
    this.waiters.set(Symbol('together'), [waiter]);
    return waiter.result();
  }

  waitersOf(name) {
    const waiters = this.waiters.get(name);
    if (!waiters) throw new Error(`no client is called ${name}; there are ${[...this.waiters.keys()].join(', ')}`);
    return waiters;
  }

  /** The workers of all nodes. */
  async #listed() {
    const lists = this.servers.filter((server) => !server.isOver).map(async ({ port }) => {
      const client = new Client(() => port, this.client.key);
      try {
        return (await client.get('/v1/workers')).workers;
      } finally {
        client.close();
      }
    });
    return (await Promise.all(lists)).flat();
  }

  worker(name) {
    const worker = this.workers.get(name);
    if (!worker) throw new Error(`worker ${name} was not started`);
    return worker;
  }

  runsOf(name) {
    const runs = this.runs.get(name);
    if (!runs) throw new Error(`no run is called ${name}; there are ${[...this.runs.keys()].join(', ')}`);
    return runs;
  }

  eventsOf(name) {
    const events = this.events.get(name);
    if (!events) throw new Error(`no event is called ${name}; there are ${[...this.events.keys()].join(', ')}`);
    return events;
  }

  /** Compares the runs of a name with their expectations. */
  async check(name, expected) {
    const journals = [];
    for (const started of this.runsOf(name)) {
      const seen = await this.#see(started);
      if (expected.steps) seen.steps = await this.client.steps(started.id);
      const wrong = [...checkRun(expected, seen), ...checkLaws(seen)];
      if (wrong.length > 0) {
        started.isOdd = true;
        throw new Error(`run ${name} (${started.id}):\n  ${wrong.join('\n  ')}`);
      }
      journals.push(seen.journal);
    }
    const slow = expected.medianMs && checkMedian(expected.medianMs, journals);
    if (slow) throw new Error(`runs ${name}: ${slow}`);
    const oneSided = expected.signalled && checkSignalled(this.runsOf(name));
    if (oneSided) throw new Error(`runs ${name}: ${oneSided}`);
  }

  /** Every run obeys the laws, also if the scenario does not check it. */
  async checkAll() {
    for (const server of this.servers) {
      const panic = server.takePanic();
      if (panic) throw new Error(`a part of the server broke: ${panic}`);
    }
    for (const name of this.runs.keys()) await this.check(name, {});
  }

  async #see(started) {
    const [run, journal] = await Promise.all([this.client.run(started.id), this.client.journal(started.id)]);
    return { run, journal, ledger: this.ledger, signal: started.signal };
  }

  /** The report of a failure. */
  async explain() {
    const parts = [];
    for (const [name, runs] of this.runs) {
      const reports = await Promise.all(runs.map((started) => this.#see(started).catch((error) => ({ error, started }))));
      // Of many runs only those that have not completed are shown.
      const odd = reports.filter(({ run }, index) => runs[index].isOdd || run?.status !== 'completed');
      for (const seen of (odd.length > 0 ? odd : reports).slice(0, 3)) {
        if (seen.error) parts.push(`run ${name} (${seen.started.id}): ${seen.error.message}`);
        else parts.push(`run ${name} (${seen.run.id}) is ${seen.run.status}, ${seen.run.waitingFor}, error ${JSON.stringify(seen.run.error)}\n${printJournal(seen.journal)}`);
      }
    }
    parts.push(`the ledger:\n${this.ledger.tail()}`);
    const workers = [...this.#retired, ...this.workers.values()];
    for (const worker of workers) if (worker.log) parts.push(`worker ${worker.name} said:\n${worker.log.slice(-2000)}`);
    this.servers.forEach((server, index) => {
      if (server.log) parts.push(`server ${index} said:\n${server.log.slice(-3000)}`);
    });
    return parts.join('\n');
  }

  async close() {
    for (const worker of [...this.#retired, ...this.workers.values()]) {
      worker.signal('SIGCONT');
      await worker.kill();
    }
    for (const waiter of [...this.waiters.values()].flat()) await waiter.kill();
    for (const proxy of this.proxies.values()) proxy.close();
    this.ledger.close();
    this.client.close();
  }
}

/** A folder that the caller deletes. */
export function makeFolder(place, name) {
  const folder = path.join(place, name);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}
