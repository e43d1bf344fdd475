// A worker as a separate process: a program of the SDK that plays the workflows of a scenario.
//
// It reads one line of JSON from its standard input, prints nothing, and ends when that input is closed.
// SIGTERM stops it in order.

import { Program } from './process.mjs';
import { until } from './until.mjs';

export class Worker {
  #program;

  /** Starts it and waits until a server lists it, or it has died as it may. `list` returns the workers of the servers. */
  static async start(command, config, { list, mayDie }) {
    const worker = new Worker();
    const [file, ...args] = command;
    worker.#program = new Program(file, args);
    worker.#program.stdin.write(`${JSON.stringify(config)}\n`);
    worker.name = config.name;
    await until(`worker ${config.name} to be listed`, async () => {
      if (mayDie && worker.#program.end === 'SIGKILL') return true;
      worker.expectAlive();
      return (await list()).some((listed) => listed.worker.endsWith(`:${worker.#program.pid}`));
    });
    return worker;
  }

  get pid() {
    return this.#program.pid;
  }

  get log() {
    return this.#program.said;
  }

  get isOver() {
    return this.#program.isOver;
  }

  expectAlive() {
    if (!this.isOver) return;
    throw new Error(`worker ${this.name} has ended with ${this.#program.end}:\n${this.log}`);
  }

  signal(name) {
    this.#program.signal(name);
  }

  kill() {
    return this.#program.kill();
  }

  ended() {
    return this.#program.ended();
  }
}
