// DBOS Rust: a library in the process of the application, with its defaults, on a private PostgreSQL server.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Postgres } from '../lib/postgres.mjs';
import { execute, Program } from '../lib/process.mjs';

const FOLDER = path.dirname(fileURLToPath(import.meta.url));
const TARGET = path.join(FOLDER, 'target');

export function install() {
  console.error('building the program of dbos-rust');
  execute('cargo', ['build', '--release', '--locked'], { cwd: FOLDER, env: { ...process.env, CARGO_TARGET_DIR: TARGET } });
}

export function versions() {
  const [, version] = /^dbos = "=(.*)"$/m.exec(fs.readFileSync(path.join(FOLDER, 'Cargo.toml'), 'utf8'));
  return `crate ${version}, ${execute('rustc', ['--version']).trim()}; all rows in process`;
}

export async function start({ place }) {
  const postgres = await Postgres.start(place);
  const program = new Program(path.join(TARGET, 'release/everstep-peer-dbos-rust'), [], { env: { DBOS_SYSTEM_DATABASE_URL: postgres.database('dbos') } });
  await program.line((line) => (line === '{"ready":true}' ? true : undefined));
  return {
    measure: (row, seconds) => program.ask({ row, seconds }),
    async stop() {
      await program.stop('SIGKILL');
      await postgres.stop();
    },
  };
}
