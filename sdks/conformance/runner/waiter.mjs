// A client of the SDK as a separate process, which waits for the end of a run.

import { Program } from './process.mjs';
import { until } from './until.mjs';

export class Waiter {
  #program;

  /** Starts it, and returns when it calls the SDK. */
  static async start(command, config) {
    const waiter = new Waiter();
    const [file, ...args] = command;
    waiter.#program = new Program(file, args);
    waiter.#program.stdin.write(`${JSON.stringify(config)}\n`);
    await until(`a client to wait for run ${config.run}`, () => waiter.#lines().includes('waiting') || waiter.#program.isOver);
    return waiter;
  }

  /** The result of the wait: `{output}` or `{error}`. */
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
