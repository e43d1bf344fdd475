// Tokens of people: JSON Web Tokens, signed with the secret that the scenario gives the servers.

import { createHmac } from 'node:crypto';

/** A token of a person who may act in runs of state machines. `settings` are those of the servers. */
export function tokenOf(person, settings = {}) {
  const { EVERSTEP_JWT_ISSUER: iss, EVERSTEP_JWT_AUDIENCE: aud, EVERSTEP_JWT_SECRET: secret } = settings;
  if (!secret) throw new Error('the settings have no EVERSTEP_JWT_SECRET, so no person has a token');
  const exp = Math.floor(Date.now() / 1000) + 3600;
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const content = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode({ iss, aud, sub: person, exp, permissions: ['workflow:act'] })}`;
  return `${content}.${createHmac('sha256', secret).update(content).digest('base64url')}`;
}
