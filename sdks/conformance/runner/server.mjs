// A server as a separate process. It keeps its port and its data when it is started again.

import fs from 'node:fs';
import path from 'node:path';

import { Client } from './client.mjs';
import { Program, freePort } from './process.mjs';
import { until } from './until.mjs';

export class Server {
  said = '';
  #binary;
  #data;
  #settings;
  #program;

  /** `database` is the URL of a PostgreSQL database; without one the server uses SQLite in the data folder. */
  static async start({ binary, data, settings, database }) {
    const server = new Server();
    server.#binary = binary;
    server.#data = data;
    server.#settings = { EVERSTEP_LOG: 'warn', EVERSTEP_RATE_LIMIT: '0', ...settings };
    if (database) server.#settings.EVERSTEP_DATABASE_URL = database;
    server.port = await freePort();
    await server.begin();
    return server;
  }

  /** Starts the process, again or for the first time. */
  async begin() {
    const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('EVERSTEP_') && name !== 'RUST_LOG');
    const env = { ...Object.fromEntries(ours), ...this.#settings };
    const args = ['serve', '--listen', `127.0.0.1:${this.port}`, '--data', this.#data];
    this.#program = new Program(this.#binary, args, { env });
    const client = new Client(() => this.port);
    const isReady = async () => {
      if (this.#program.isOver) throw new Error(`the server ended with ${this.#program.end}:\n${this.#program.said}`);
      return (await client.ask('GET', '/readyz')).status === 200;
    };
    await until('the server to be ready', isReady);
    client.close();
  }

  /** The first admin API key. */
  get key() {
    return fs.readFileSync(path.join(this.#data, 'admin.key'), 'utf8').trim();
  }

  get isOver() {
    return this.#program.isOver;
  }

  get log() {
    return this.#program.said;
  }

  /** Its output at a failure of one of its parts; returned once. */
  takePanic() {
    const { panic } = this.#program;
    if (panic) this.#program.panic = '';
    return panic;
  }

  kill() {
    return this.#program.kill();
  }

  /** Stops it in order. */
  async stop() {
    this.#program.signal('SIGTERM');
    return this.#program.ended();
  }
}
