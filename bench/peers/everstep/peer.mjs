// Everstep: the server of this repository with its default settings, except for the rate limit of an API key, and one
// worker of its TypeScript SDK.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bodyOf, measureHttp } from '../lib/http-peer.mjs';
import { Postgres } from '../lib/postgres.mjs';
import { execute, installPackages, makeFolder, Program, removeFolder } from '../lib/process.mjs';

const FOLDER = path.dirname(fileURLToPath(import.meta.url));
const REPOSITORY = path.resolve(FOLDER, '../../..');
const SDK = path.join(REPOSITORY, 'sdks/typescript');

/** Builds the server and the SDK. */
export function install({ server }) {
  if (!server) {
    console.error('building the server');
    execute('cargo', ['build', '--release', '--locked', '-p', 'everstep'], { cwd: REPOSITORY });
  }
  installPackages(SDK);
  execute('npm', ['run', '--silent', 'build'], { cwd: SDK });
}

function programOf(server) {
  if (server) return path.resolve(server);
  return path.join(path.resolve(REPOSITORY, process.env.CARGO_TARGET_DIR ?? 'target'), 'release/everstep');
}

export function versions({ server }) {
  return `${execute(programOf(server), ['--version']).trim()}, Node.js ${process.version}`;
}

/** Starts it on PostgreSQL, or on SQLite. */
export async function start({ server, place }, store) {
  const data = makeFolder(place, 'everstep');
  const postgres = store === 'postgres' ? await Postgres.start(place) : undefined;
  const args = ['serve', '--listen', '127.0.0.1:0', '--data', data];
  if (postgres) args.push('--database-url', postgres.database('everstep'));
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('EVERSTEP_')));
  const program = new Program(programOf(server), args, { env: { ...env, EVERSTEP_RATE_LIMIT: '0' }, inheritEnv: false });
  const port = await program.line((line) => /listens on http:\/\/[^ ]*:(\d+)/.exec(line)?.[1]);
  // The last line of the greeting: the key is written now.
  await program.line((line) => (/^  (try|keys) /.test(line) ? true : undefined));
  const key = fs.readFileSync(path.join(data, 'admin.key'), 'utf8').trim();
  const worker = new Program(process.execPath, [path.join(FOLDER, 'worker.mjs'), `http://127.0.0.1:${port}`], { env: { EVERSTEP_API_KEY: key } });
  await worker.line((line) => (line === '{"ready":true}' ? true : undefined));
  const headers = `authorization: Bearer ${key}\r\n`;

  const client = {
    port,
    async run(connection, workflow, n) {
      const path = `/v1/workflows/${workflow}/runs?waitSeconds=30`;
      let { run } = bodyOf(await connection.request('POST', path, `{"input":{"n":${n}}}`, headers), 201);
      // The server answers earlier if too many requests wait.
      while (run.status === 'running') run = bodyOf(await connection.request('GET', `/v1/runs/${run.id}?waitSeconds=30`, undefined, headers), 200);
      if (run.status !== 'completed') throw new Error(`run ${run.id} is ${run.status}`);
      return run.output;
    },
    async start(connection, n) {
      bodyOf(await connection.request('POST', '/v1/workflows/nothing/runs', `{"input":{"n":${n}}}`, headers), 201);
    },
    executed: async () => (await worker.ask({ do: 'count' })).count,
  };
  return {
    measure: (row, seconds) => measureHttp(row, seconds, client),
    async stop() {
      await worker.stop();
      await program.stop();
      await postgres?.stop();
      removeFolder(data);
    },
  };
}
