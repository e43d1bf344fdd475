// A client of the SDK as a separate process, which waits for the ends of runs.

import { Program } from './process.mjs';
import { until } from './until.mjs';

/** The results of some hundred runs are one line. */
const RESULT_CHARACTERS_MAX = 1024 * 1024;

export class Waiter {
  #program;

  /** Starts it, and returns when it calls the SDK. */
  static async start(command, config) {
    const waiter = new Waiter();
    const [file, ...args] = command;
    waiter.#program = new Program(file, args);
    waiter.#program.saidMax = RESULT_CHARACTERS_MAX;
    waiter.#program.stdin.write(`${JSON.stringify(config)}\n`);
    await until(`a client to wait for ${config.run ?? 'its runs'}`, () => waiter.#lines().includes('waiting') || waiter.#program.isOver);
    return waiter;
  }

  /** The result of the wait: `{output}` or `{error}`; of a client that starts runs, a list of such results. */
  async result() {
    await until('the wait of a client to end', () => this.#program.isOver);
    if (this.#program.end !== 0) throw new Error(`the client has ended with ${this.#program.end}:\n${this.#program.said}`);
    return JSON.parse(this.#lines().at(-1));
  }

  kill() {
    return this.#program.kill();
  }

  #lines() {
    return this.#program.said.trim().split('\n');
  }
}
