// Databases on an existing PostgreSQL server: one per server, or cluster, of a scenario.

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Creates a database and returns its URL. `admin` is the URL of a database whose owner may create others. */
export async function createDatabase(admin, name) {
  await sql(admin, `create database ${name}`);
  const url = new URL(admin);
  url.pathname = `/${name}`;
  return url.href;
}

export async function dropDatabase(admin, name) {
  await sql(admin, `drop database if exists ${name} with (force)`);
}

async function sql(url, statement) {
  const args = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', statement];
  await run(psql(), args, { env: { ...process.env, PGOPTIONS: '-c client_min_messages=warning' } });
}

/** The path on Debian; elsewhere the search path is used. */
function psql() {
  const place = '/usr/lib/postgresql';
  const versions = fs.existsSync(place) ? fs.readdirSync(place) : [];
  const newest = versions.map(Number).filter(Number.isInteger).sort((one, other) => other - one)[0];
  const file = `${place}/${newest}/bin/psql`;
  return newest !== undefined && fs.existsSync(file) ? file : 'psql';
}
