// The service of Restate: the three workflows as handlers of a service, over HTTP/2.

import http2 from 'node:http2';
import * as restate from '@restatedev/restate-sdk';
import { obey, tell } from '../lib/orders.mjs';
import { CHAIN_STEPS, FAN_STEPS } from '../lib/rows.mjs';

// The SDK needs this function of Node.js 22.
Promise.withResolvers ??= () => {
  const resolvers = {};
  resolvers.promise = new Promise((resolve, reject) => Object.assign(resolvers, { resolve, reject }));
  return resolvers;
};

let executed = 0;
const NAMES = Array.from({ length: FAN_STEPS }, (_, n) => `step-${n}`);

const bench = restate.service({
  name: 'bench',
  handlers: {
    chain: async (ctx, { n }) => {
      let sum = 0;
      for (let i = 0; i < CHAIN_STEPS; i++) sum += (await ctx.run(NAMES[i], () => ({ value: i }))).value;
      return { n, sum };
    },
    fan: async (ctx, { n }) => {
      const outputs = await restate.RestatePromise.all(NAMES.map((name, i) => ctx.run(name, () => ({ value: i }))));
      return { n, sum: outputs.reduce((sum, { value }) => sum + value, 0) };
    },
    nothing: async (_ctx, { n }) => {
      executed += 1;
      return { n };
    },
  },
});

// Without the lines of every invocation.
const logger = (meta, ...message) => {
  if (meta.level === 'error' || meta.level === 'warn') console.error(...message);
};
const server = http2.createServer(restate.createEndpointHandler({ services: [bench], logger }));
server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  obey({ count: () => ({ count: executed }) });
  tell({ ready: true });
});
