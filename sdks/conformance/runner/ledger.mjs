// The side effects of steps, counted outside of everything that may crash.
//
// A step's function records its beginning and its end, and receives the number of its earlier beginnings.
// It may also wait at a gate until the scenario opens it, so that a fault happens at a known moment.

import http from 'node:http';

import { until } from './until.mjs';

export class Ledger {
  records = [];
  #gates = new Map();
  #counts = new Map();
  #server;

  static async open() {
    const ledger = new Ledger();
    const server = http.createServer((request, response) => ledger.#answer(request, response));
    // A step may wait at a gate without a time limit.
    Object.assign(server, { requestTimeout: 0, headersTimeout: 0, timeout: 0, keepAliveTimeout: 120_000 });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    ledger.#server = server;
    return ledger;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Opens a gate, for the steps that wait at it and for later ones. */
  openGate(name) {
    const gate = this.#gate(name);
    gate.isOpen = true;
    for (const release of gate.held.splice(0)) release();
  }

  /** The number of steps that wait at a gate. */
  heldAt(name) {
    return this.#gate(name).held.length;
  }

  /** The number of records of a step of a run; of all runs if none is named. */
  count(what, step, run) {
    return this.#counts.get(key(what, step, run)) ?? 0;
  }

  /** The records of a step of a run. */
  of(what, step, run) {
    return this.records.filter((record) => record.what === what && record.step === step && record.run === run);
  }

  /** Waits until there are enough records. */
  async until(what, step, run, times) {
    const whose = run ? ` of run ${run}` : '';
    await until(`${what} ${step}${whose} to be noted ${times} times`, () => this.count(what, step, run) >= times);
  }

  /** The last records, for people. */
  tail(length = 40) {
    const lines = this.records.slice(-length).map((record) => {
      const value = record.value === undefined ? '' : ` ${JSON.stringify(record.value)}`;
      return `  ${record.at} ${record.worker} ${record.run.slice(-6)} ${record.what} ${record.step}${value}`;
    });
    return lines.join('\n') || '  (nothing)';
  }

  #gate(name) {
    if (!this.#gates.has(name)) this.#gates.set(name, { isOpen: false, held: [] });
    return this.#gates.get(name);
  }

  async #answer(request, response) {
    let text = '';
    for await (const chunk of request) text += chunk;
    const reply = (value) => response.end(JSON.stringify(value));
    const body = JSON.parse(text);
    if (request.url === '/note') return reply({ nth: this.#note(body) });
    if (request.url === '/gate') {
      const gate = this.#gate(body.gate);
      if (gate.isOpen) return reply({});
      const release = () => reply({});
      gate.held.push(release);
      response.on('close', () => {
        gate.held = gate.held.filter((held) => held !== release);
      });
      return undefined;
    }
    response.statusCode = 404;
    return reply({});
  }

  #note({ run, step, what, worker, value }) {
    const at = new Date().toISOString().slice(11, 23);
    this.records.push({ run, step, what, worker, value, at });
    for (const counted of [key(what, step), key(what, step, run)]) {
      this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1);
    }
    return this.count(what, step, run);
  }
}

const key = (what, step, run = '') => JSON.stringify([what, step, run]);
