// A program that receives webhooks and verifies them with the library of Standard Webhooks.
//
// The argument is {secrets}: the secret of each path. A secret that begins with `whsec_` is base64, any other is the key
// itself. The address is printed first: {"url": "…"}. Then each request is printed: {"path", "id", "body", "forged"}, where
// `body` is the verified message, and `forged` are the changed requests that the library accepts. It ends with its input.

import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const { secrets } = JSON.parse(process.argv[2]);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const verifier = (secret) => (secret.startsWith('whsec_') ? new Webhook(secret) : new Webhook(Buffer.from(secret), { format: 'raw' }));

/** The names of the changed requests that are accepted. */
function forge(webhook, text, headers) {
  const later = String(Number(headers['webhook-timestamp']) + 1);
  const changed = {
    body: () => webhook.verify(`${text} `, headers),
    id: () => webhook.verify(text, { ...headers, 'webhook-id': 'another' }),
    timestamp: () => webhook.verify(text, { ...headers, 'webhook-timestamp': later }),
    secret: () => verifier('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw').verify(text, headers),
  };
  return Object.keys(changed).filter((name) => {
    try {
      changed[name]();
      return true;
    } catch {
      return false;
    }
  });
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  const webhook = verifier(secrets[request.url]);
  try {
    const body = webhook.verify(text, request.headers);
    say({ path: request.url, id: request.headers['webhook-id'], body, forged: forge(webhook, text, request.headers) });
    response.writeHead(204).end();
  } catch (error) {
    say({ path: request.url, error: String(error) });
    response.writeHead(401).end();
  }
});
server.listen(0, '127.0.0.1', () => say({ url: `http://127.0.0.1:${server.address().port}` }));
process.stdin.resume().on('end', () => process.exit());
