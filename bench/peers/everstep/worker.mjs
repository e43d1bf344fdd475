// The worker of Everstep: the three workflows, with the SDK of this repository.

import { serve, workflow } from '../../../sdks/typescript/dist/src/index.js';
import { obey, tell } from '../lib/orders.mjs';
import { CHAIN_STEPS, FAN_STEPS } from '../lib/rows.mjs';

let executed = 0;
const NAMES = Array.from({ length: FAN_STEPS }, (_, n) => `step-${n}`);

const chain = workflow({
  name: 'chain',
  run: async (ctx, { n }) => {
    let sum = 0;
    for (let i = 0; i < CHAIN_STEPS; i++) sum += (await ctx.step.run(NAMES[i], () => ({ value: i }))).value;
    return { n, sum };
  },
});

const fan = workflow({
  name: 'fan',
  run: async (ctx, { n }) => {
    const outputs = await Promise.all(NAMES.map((name, i) => ctx.step.run(name, () => ({ value: i }))));
    return { n, sum: outputs.reduce((sum, { value }) => sum + value, 0) };
  },
});

const nothing = workflow({
  name: 'nothing',
  run: async (_ctx, { n }) => {
    executed += 1;
    return { n };
  },
});

const worker = serve({ url: process.argv[2], concurrency: 1_000, workflows: [chain, fan, nothing] });
await worker.ready;
obey({ count: () => ({ count: executed }) });
tell({ ready: true });
