// DBOS TypeScript: a library in the process of the application, with its defaults, on a private PostgreSQL server.

import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bodyOf, measureHttp } from '../lib/http-peer.mjs';
import { Postgres } from '../lib/postgres.mjs';
import { installPackages, packageVersion, Program } from '../lib/process.mjs';

const FOLDER = path.dirname(fileURLToPath(import.meta.url));

export function install() {
  installPackages(FOLDER);
}

export function versions() {
  return `SDK ${packageVersion(FOLDER, '@dbos-inc/dbos-sdk')}, Node.js ${process.version}; W1 to W3 in process, W4 over HTTP`;
}

export async function start({ place }) {
  const postgres = await Postgres.start(place);
  const program = new Program(process.execPath, [path.join(FOLDER, 'program.mjs')], { env: { DBOS_SYSTEM_DATABASE_URL: postgres.database('dbos') } });
  const port = await program.line((line) => (line.startsWith('{"ready":true') ? JSON.parse(line).port : undefined));
  const client = {
    port,
    async start(connection, n) {
      bodyOf(await connection.request('POST', '/', `{"n":${n}}`), 201);
    },
    executed: async () => (await program.ask({ do: 'count' })).count,
  };
  return {
    measure: (row, seconds) => (row === 'w4' ? measureHttp(row, seconds, client) : program.ask({ do: 'measure', row, seconds })),
    async stop() {
      await program.stop('SIGKILL');
      await postgres.stop();
    },
  };
}
