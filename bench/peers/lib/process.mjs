// Processes and folders of a comparison. All of them end and disappear with this process, whatever happens.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const STOP_MAX_MS = 15_000;
const LOG_CHARACTERS_MAX = 16_384;

const programs = new Set();
const folders = new Set();
process.on('exit', () => {
  for (const program of programs) program.kill();
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(1));

/** A program in a separate process. */
export class Program {
  /** The last part of its output. */
  log = '';
  #child;
  #ended;
  #lines = [];
  #readers = [];

  constructor(command, args, { cwd, env = {}, inheritEnv = true } = {}) {
    const whole = inheritEnv ? { ...process.env, ...env } : env;
    this.name = path.basename(command);
    this.#child = spawn(command, args, { cwd, env: whole, stdio: ['pipe', 'pipe', 'pipe'] });
    programs.add(this);
    this.#child.stdin.on('error', () => {});
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      readline.createInterface({ input: stream }).on('line', (line) => this.#hear(line));
    }
    this.#ended = new Promise((resolve) => {
      this.#child.on('error', (error) => {
        this.log += `${error.message}\n`;
        resolve();
      });
      this.#child.on('close', (code, signal) => {
        programs.delete(this);
        this.end = signal ?? code;
        resolve();
        for (const { reject } of this.#readers.splice(0)) reject(this.#failure());
      });
    });
  }

  get pid() {
    return this.#child.pid;
  }

  #hear(line) {
    this.log = `${this.log}${line}\n`.slice(-LOG_CHARACTERS_MAX);
    this.#lines.push(line);
    if (this.#lines.length > 1_000) this.#lines.shift();
    for (const reader of [...this.#readers]) {
      const found = reader.match(line);
      if (found === undefined) continue;
      this.#readers.splice(this.#readers.indexOf(reader), 1);
      reader.resolve(found);
    }
  }

  #failure() {
    return new Error(`${this.name} has ended with ${this.end}:\n${this.log}`);
  }

  /** The first value that `match` returns for a line of the output. */
  line(match, timeoutMs = 60_000) {
    for (const line of this.#lines) {
      const found = match(line);
      if (found !== undefined) return Promise.resolve(found);
    }
    return this.#next(match, timeoutMs);
  }

  #next(match, timeoutMs) {
    if (this.end !== undefined) return Promise.reject(this.#failure());
    return new Promise((resolve, reject) => {
      const late = () => settle(reject)(new Error(`${this.name} did not print what was expected:\n${this.log}`));
      const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
      const settle = (done) => (value) => {
        clearTimeout(timer);
        done(value);
      };
      this.#readers.push({ match, resolve: settle(resolve), reject: settle(reject) });
    });
  }

  /** Sends a command as one line of JSON, and returns the answer, which has the same `id`. */
  ask(command) {
    const id = ++asked;
    const answer = this.#next((line) => {
      // Other lines are logs.
      return line.startsWith(`{"id":${id},`) ? JSON.parse(line) : undefined;
    });
    this.#child.stdin.write(`${JSON.stringify({ id, ...command })}\n`);
    return answer.then((document) => {
      if (document.error !== undefined) throw new Error(`${this.name}: ${document.error}`);
      return document;
    });
  }

  /** Ends it by force, without waiting. */
  kill() {
    this.#child.kill('SIGKILL');
  }

  /** Ends it: in order if it can, and else by force. */
  async stop(signal = 'SIGTERM') {
    if (this.end !== undefined) return;
    this.#child.kill(signal);
    const timer = setTimeout(() => this.kill(), STOP_MAX_MS);
    await this.#ended;
    clearTimeout(timer);
  }
}

let asked = 0;

/** Executes a program to its end. Its output is shown only if it fails. */
export function execute(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26, ...options });
  if (error) throw new Error(`${command} cannot be started: ${error.message}`);
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} has ended with ${status}:\n${stdout}\n${stderr}`);
  return stdout;
}

/** A new folder, which is deleted with this process. */
export function makeFolder(place, name) {
  const folder = fs.mkdtempSync(path.join(place ?? os.tmpdir(), `everstep-peers-${name}-`));
  folders.add(folder);
  return folder;
}

export function removeFolder(folder) {
  fs.rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

/** Ends the programs and deletes the folders that an engine has left. */
export async function endAll() {
  await Promise.all([...programs].map((program) => program.stop('SIGKILL')));
  for (const folder of folders) removeFolder(folder);
}

/** Ports on loopback on which no process listens now. */
export async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => new Promise((resolve) => {
      const server = net.createServer().listen(0, '127.0.0.1', () => resolve(server));
    })),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Repeats an action until it succeeds. An action that does not end is abandoned after the time. */
export async function until(what, act, timeoutMs = 60_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    try {
      const result = await within(end - Date.now(), act());
      if (result !== false) return result;
      if (Date.now() >= end) throw new Error('it does not hold yet');
    } catch (error) {
      if (Date.now() >= end) throw new Error(`waiting for ${what}: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The result of an action; an error if it does not end in time. */
export async function within(ms, action) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('there is no answer')), ms)));
  try {
    return await Promise.race([action, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Installs the packages of a folder from the public registry, as its lock file names them. */
export function installPackages(folder) {
  const installed = path.join(folder, 'node_modules/.package-lock.json');
  const lock = path.join(folder, 'package-lock.json');
  if (fs.existsSync(installed) && fs.statSync(installed).mtimeMs >= fs.statSync(lock).mtimeMs) return;
  console.error(`installing the packages of ${path.basename(folder)}`);
  // Without the scripts of the packages: none of them is needed, and one reports the installation to its maker.
  execute('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder });
}

/** The version of an installed package. */
export function packageVersion(folder, name) {
  return JSON.parse(fs.readFileSync(path.join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
}
