// Executes synthetic runs while a worker connects, so that its first run finds code that Node.js has compiled and
// optimised. They use the same classes as other runs, with a transport that answers each report at once.

import { ActiveRuns, type RunsOwner } from "./active-runs.js";
import { Outbox } from "./outbox.js";
import type { Transport } from "./transport.js";
import type { Context } from "./types.js";
import { textFrame } from "./websocket.js";
import type { NumberedMessage } from "./wire.js";
import type { ServedWorkflow } from "./worker.js";

/** After this time no other batch of reports is processed. */
const WARM_UP_MAX_MS = 15;
const RUNS_MAX = 20;
const PARALLEL_STEPS = 100;
const SEQUENTIAL_STEPS = 10;
const NAME = "everstep-warm-up";
const RUN_ID = "00000000-0000-7000-8000-000000000000";

const synthetic: ServedWorkflow = {
  name: NAME,
  version: 1,
  run: async (ctx: Context) => {
    for (let n = 0; n < SEQUENTIAL_STEPS; n++) await ctx.step.run(`step-${n}`, () => ({ value: n }));
    const outputs = await Promise.all(Array.from({ length: PARALLEL_STEPS }, (_, n) => ctx.step.run(`parallel-${n}`, async () => ({ value: n }))));
    return outputs.length;
  },
};

const owner: RunsOwner = {
  workflows: new Map([[NAME, new Map([[1, synthetic]])]]),
  isStopping: false,
  leaseMs: Number.POSITIVE_INFINITY,
  hasLease: () => true,
  checkDrained: () => {},
  writeLog: () => {},
};

/** Executes synthetic runs for up to `maxMs`. Returns how many have ended. */
export function warmUp(maxMs = WARM_UP_MAX_MS): Promise<number> {
  return new Promise((resolve) => {
    const until = performance.now() + maxMs;
    const outbox = new Outbox(
      () => 0,
      () => {},
    );
    const runs = new ActiveRuns(owner, outbox);
    let [seq, ended] = [1, 0];
    const receive = (message: NumberedMessage): void => runs.process(JSON.parse(JSON.stringify(message)) as NumberedMessage);
    const begin = (): void => {
      const turn = { run: RUN_ID, turn: ended + 1, workflow: NAME, version: 1, input: null, startedAt: new Date(0).toISOString(), seq, steps: [] };
      receive({ m: 1, turns: [turn] });
    };
    const transport: Transport = {
      isBusy: false,
      open: () => {},
      send(seen, reports) {
        const text = `{"seen":${seen},"reports":[${reports}]}`;
        textFrame(text);
        const sent = (JSON.parse(text) as { reports: { n: number; kind: string }[] }).reports;
        // The worker's own messages are processed in between.
        setImmediate(() => {
          if (performance.now() > until) return stop();
          receive({ m: 1, acks: sent.map(({ n }) => [n, ++seq]) });
          if (!sent.some(({ kind }) => kind === "returned")) return;
          ended += 1;
          if (ended === RUNS_MAX) stop();
          else begin();
        });
      },
      sendSeen: () => {},
      ping: () => true,
      setCapacity: () => {},
      endSession: () => Promise.resolve(),
      close: () => {},
    };
    const stop = (): void => {
      outbox.close();
      resolve(ended);
    };
    outbox.open(transport);
    begin();
  });
}
