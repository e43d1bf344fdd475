// The servers that scenarios run against: most share one server, each in a separate workspace.
// A scenario that kills servers, needs several, or has other settings gets separate servers.

import path from 'node:path';

import { Client } from './client.mjs';
import { createDatabase, dropDatabase } from './database.mjs';
import { Server } from './server.mjs';

/** Short, so that a lost worker is detected soon; long enough for a busy machine. */
const WORKER_LEASE = '3s';
const NODE_LEASE = '2s';

export class Environments {
  #binary;
  #database;
  #place;
  #shared;
  #count = 0;

  constructor({ binary, database, place }) {
    this.#binary = binary;
    this.#database = database;
    this.#place = place;
  }

  /** The servers for a scenario, an admin API key, and how to release them. */
  async acquire(scenario) {
    const { servers = 1, settings } = scenario;
    const isRough = scenario.do.some((action) => 'killServer' in action || 'stopServer' in action);
    if (servers > 1 || settings || isRough) return this.#build(servers, settings);
    this.#shared ??= this.#build(1);
    const shared = await this.#shared;
    const admin = new Client(() => shared.servers[0].port, shared.key);
    const name = `scenario-${(this.#count += 1)}`;
    const made = await admin.expect([201], 'POST', '/v1/workspaces', { name });
    admin.close();
    return { servers: shared.servers, key: made.secret, release: () => {} };
  }

  async close() {
    if (this.#shared) await (await this.#shared).release();
  }

  async #build(count, settings = {}) {
    const name = `conformance_${process.pid}_${(this.#count += 1)}`;
    const data = path.join(this.#place, name);
    const database = this.#database && (await createDatabase(this.#database, name));
    const given = { EVERSTEP_WORKER_LEASE: WORKER_LEASE, ...settings };
    // A node alone with its SQLite has no lease.
    if (database) given.EVERSTEP_NODE_LEASE ??= NODE_LEASE;
    const servers = [];
    const release = async () => {
      await Promise.all(servers.map((server) => server.kill()));
      if (database) await dropDatabase(this.#database, name);
    };
    try {
      for (let index = 0; index < count; index++) {
        const options = { binary: this.#binary, data, settings: given, database };
        servers.push(await Server.start(options));
      }
    } catch (error) {
      await release();
      throw error;
    }
    return { servers, key: servers[0].key, release };
  }
}
