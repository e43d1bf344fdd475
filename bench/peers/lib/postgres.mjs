// A private PostgreSQL server in a folder of its own, with durable commits. As root it runs as the user `postgres`.

import fs from 'node:fs';
import path from 'node:path';
import { execute, freePorts, makeFolder, Program, removeFolder, until } from './process.mjs';

const USER = 'postgres';
const SETTINGS = `
listen_addresses = '127.0.0.1'
max_connections = 300
dynamic_shared_memory_type = mmap
timezone = 'UTC'
fsync = on
synchronous_commit = on
full_page_writes = on
`;

export class Postgres {
  #folder;
  #program;
  #bin = findBinaries();

  /** Starts a server whose files are in a new folder inside `place`. */
  static async start(place) {
    const postgres = new Postgres();
    const folder = makeFolder(place, 'pg');
    postgres.#folder = folder;
    if (isRoot()) {
      const [uid, gid] = idsOf(USER);
      fs.chownSync(folder, uid, gid);
    }
    const data = path.join(folder, 'data');
    const [program, ...rest] = postgres.#command('initdb', '--no-sync', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--username', USER, '-D', data);
    execute(program, rest, { cwd: folder });
    [postgres.port] = await freePorts(1);
    fs.appendFileSync(path.join(data, 'postgresql.conf'), `${SETTINGS}\nport = ${postgres.port}\nunix_socket_directories = '${folder}'\n`);
    const [command, ...args] = postgres.#command('postgres', '-D', data);
    postgres.#program = new Program(command, args, { cwd: folder });
    await until('PostgreSQL', () => void postgres.sql('postgres', 'select 1'));
    return postgres;
  }

  get version() {
    return this.sql('postgres', 'show server_version').trim();
  }

  /** The URL of a new database. */
  database(name) {
    this.sql('postgres', `create database ${name}`);
    return `postgres://${USER}@127.0.0.1:${this.port}/${name}`;
  }

  sql(database, statement) {
    const [program, ...args] = this.#command('psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-U', USER, '-d', database, '-c', statement, '-h', this.#folder, '-p', String(this.port));
    return execute(program, args, { cwd: this.#folder });
  }

  async stop() {
    await this.#program.stop('SIGINT');
    removeFolder(this.#folder);
  }

  #command(program, ...args) {
    const command = [path.join(this.#bin, program), ...args];
    return isRoot() ? ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--init-groups', '--', ...command] : command;
  }
}

function isRoot() {
  return process.getuid() === 0;
}

function idsOf(name) {
  const line = fs.readFileSync('/etc/passwd', 'utf8').split('\n').find((one) => one.startsWith(`${name}:`));
  if (!line) throw new Error(`PostgreSQL does not run as root, and the user ${name} does not exist: apt-get install postgresql creates it`);
  return line.split(':').slice(2, 4).map(Number);
}

/** The programs of the newest installed version. */
function findBinaries() {
  const isComplete = (folder) => ['initdb', 'postgres', 'psql'].every((program) => fs.existsSync(path.join(folder, program)));
  const debian = '/usr/lib/postgresql';
  const versions = fs.existsSync(debian) ? fs.readdirSync(debian).map(Number).filter(Boolean).sort((a, b) => b - a) : [];
  const folders = [...versions.map((version) => path.join(debian, String(version), 'bin')), ...(process.env.PATH ?? '').split(':')];
  const found = folders.find(isComplete);
  if (!found) throw new Error('PostgreSQL 15 or later is not installed: apt-get install postgresql');
  return found;
}
