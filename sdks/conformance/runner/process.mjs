// Programs that a scenario starts: each is killed with the runner, whatever happens.

import { spawn } from 'node:child_process';
import net from 'node:net';

const all = new Set();
process.on('exit', () => {
  for (const child of all) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

export class Program {
  said = '';
  /** Characters of its output that are kept. */
  saidMax = 16_384;
  #child;
  #ended;

  constructor(command, args, options = {}) {
    this.#child = spawn(command, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
    all.add(this.#child);
    const hear = (chunk) => {
      this.said += chunk;
      // The output of a program at its failure is kept, however much follows.
      const at = this.panic === undefined ? this.said.indexOf('panicked at') : -1;
      if (at >= 0) this.panic = this.said.slice(at, at + 4_000);
      this.said = this.said.slice(-this.saidMax);
    };
    this.#child.stdout.on('data', hear);
    this.#child.stderr.on('data', hear);
    // A killed program does not read.
    this.#child.stdin.on('error', () => {});
    this.#ended = new Promise((resolve, reject) => {
      this.#child.on('error', (error) => reject(new Error(`${command} cannot be started: ${error.message}`)));
      this.#child.on('close', (code, signal) => {
        all.delete(this.#child);
        this.end = signal ?? code;
        resolve(this.end);
      });
    });
    this.#ended.catch(() => {});
  }

  get pid() {
    return this.#child.pid;
  }

  get stdin() {
    return this.#child.stdin;
  }

  get isOver() {
    return this.end !== undefined;
  }

  signal(name) {
    this.#child.kill(name);
  }

  /** Kills it, and waits until it has ended. */
  async kill() {
    if (!this.isOver) this.#child.kill('SIGKILL');
    return this.#ended;
  }

  /** Waits until it has ended by itself. */
  ended() {
    return this.#ended;
  }
}

/** A port on which no process listens now. */
export async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
