// A program that publishes events with the official CloudEvents SDK.
//
// The argument is {url, key, source}. It sends one event in each of the three modes of HTTP, and prints the answers line by
// line: {"mode": "binary", "status": 202, "answer": …}.

import { CloudEvent, HTTP } from 'cloudevents';

const { url, key, source } = JSON.parse(process.argv[2]);

const make = (id) =>
  new CloudEvent({
    id,
    source,
    type: 'order.paid',
    subject: 'order 17, "paid"',
    time: '2026-11-17T12:00:00.000Z',
    traceparent: '00-ab',
    data: { order: 17, note: 'é' },
  });

async function send(mode, path, { headers, body }) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(url + path, { method: 'POST', headers: { ...headers, 'x-api-key': key }, body: text });
  process.stdout.write(JSON.stringify({ mode, status: response.status, answer: await response.json() }) + '\n');
}

await send('binary', '/v1/topics/order.paid', HTTP.binary(make('binary')));
await send('structured', '/v1/topics/order.paid', HTTP.structured(make('structured')));
await send('batched', '/v1/events', {
  headers: { 'content-type': 'application/cloudevents-batch+json' },
  body: [make('batched'), make('batched too')],
});
