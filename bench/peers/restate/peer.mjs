// Restate: its server from npm on a fresh folder, with its default durable settings, and one service of its TypeScript SDK.
// A client calls the ingress: one request per run.

import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { HttpConnection } from '../lib/http.mjs';
import { bodyOf, measureHttp } from '../lib/http-peer.mjs';
import { freePorts, installPackages, makeFolder, packageVersion, Program, removeFolder, until } from '../lib/process.mjs';

const FOLDER = path.dirname(fileURLToPath(import.meta.url));

export function install() {
  installPackages(FOLDER);
}

export function versions() {
  return `server ${packageVersion(FOLDER, '@restatedev/restate-server')}, SDK ${packageVersion(FOLDER, '@restatedev/restate-sdk')}, Node.js ${process.version}`;
}

export async function start({ place }) {
  const data = makeFolder(place, 'restate');
  const [ingress, admin, fabric, service] = await freePorts(4);
  const env = {
    DO_NOT_TRACK: '1',
    RESTATE_BASE_DIR: data,
    RESTATE_NODE_NAME: 'bench',
    RESTATE_CLUSTER_NAME: 'bench',
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_BIND_ADDRESS: `127.0.0.1:${fabric}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${fabric}/`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_LOG_FILTER: 'warn',
  };
  // The binary itself: the program of the package starts it as a child, which would survive a SIGKILL.
  const binary = createRequire(import.meta.url).resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
  const server = new Program(binary, [], { env });
  const endpoint = new Program(process.execPath, [path.join(FOLDER, 'service.mjs'), String(service)]);
  await endpoint.line((line) => (line === '{"ready":true}' ? true : undefined));
  const client = {
    port: ingress,
    run: async (connection, workflow, n) => bodyOf(await connection.request('POST', `/bench/${workflow}`, `{"n":${n}}`), 200),
    async start(connection, n) {
      bodyOf(await connection.request('POST', '/bench/nothing/send', `{"n":${n}}`), 200, 202);
    },
    executed: async () => (await endpoint.ask({ do: 'count' })).count,
  };
  await until('the registration of the service', async () => {
    const connection = await HttpConnection.open(admin);
    try {
      bodyOf(await connection.request('POST', '/deployments', JSON.stringify({ uri: `http://127.0.0.1:${service}` })), 200, 201);
    } finally {
      connection.close();
    }
  }).catch((error) => {
    throw new Error(`${error.message}\n${server.log}`);
  });
  await until('the first run', async () => {
    const connection = await HttpConnection.open(ingress);
    await client.run(connection, 'chain', 1).finally(() => connection.close());
  }).catch((error) => {
    throw new Error(`${error.message}\n${server.log}\n${endpoint.log}`);
  });
  return {
    measure: (row, seconds) => measureHttp(row, seconds, client),
    async stop() {
      await server.stop();
      await endpoint.stop();
      removeFolder(data);
    },
  };
}
