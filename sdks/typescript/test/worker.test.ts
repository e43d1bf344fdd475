import assert from "node:assert/strict";
import { test } from "node:test";
import { NonRetriableError, serve, StepError, workflow, type Worker, type WorkerOptions } from "../src/runtime.js";
import type { Served } from "../src/worker.js";
import { Peer } from "./peer.js";

/** Runs a test with a peer and a worker, over both carriers. */
function withWorker(
  name: string,
  workflows: () => Served[],
  body: (peer: Peer, worker: Worker) => Promise<void>,
  options: WorkerOptions & { prepare?: (peer: Peer) => void } = {},
): void {
  for (const transport of ["socket", "http"] as const) {
    test(`${name} (${transport})`, async () => {
      const peer = new Peer();
      await peer.listen();
      options.prepare?.(peer);
      const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, transport, graceMs: 300, ...options, workflows: workflows() });
      try {
        await worker.ready;
        await body(peer, worker);
      } finally {
        await worker.stop().catch(() => {});
        await peer.close();
      }
    });
  }
}

const sum = workflow({
  name: "sum",
  run: async (ctx, input: { upTo: number }) => {
    let sum = 0;
    for (let i = 1; i <= input.upTo; i++) sum = await ctx.step.run(`add-${i}`, async () => sum + i);
    return { sum };
  },
});

withWorker("steps run one after the other and the run ends with what the function returns", () => [sum], async (peer) => {
  const run = peer.start("sum", { upTo: 4 });
  await peer.ended(run);
  assert.deepEqual(run.output, { sum: 10 });
  assert.deepEqual([...run.known.keys()], ["add-1", "add-2", "add-3", "add-4"]);
});

withWorker(
  "parallel steps travel together",
  () => [
    workflow({
      name: "wide",
      run: async (ctx) => {
        const all = await Promise.all(Array.from({ length: 500 }, (_, i) => ctx.step.run(`s${i}`, async () => i)));
        return all.reduce((a, b) => a + b, 0);
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("wide");
    await peer.ended(run);
    assert.equal(run.output, 124_750);
    assert.equal(peer.batches[0], 500);
  },
);

withWorker(
  "a failing step is tried again as the server says, and fails for good with a StepError",
  () => [
    workflow({
      name: "flaky",
      run: async (ctx) => {
        const seen: number[] = [];
        const value = await ctx.step.run("second-time", (step) => {
          seen.push(step.attempt);
          if (step.attempt < 2) throw new Error("not yet");
          return step.attempt;
        });
        const error = await ctx.step
          .run("never", () => {
            throw new NonRetriableError("no", { code: "NO" });
          })
          .catch((error: unknown) => error);
        assert.ok(error instanceof StepError);
        return { value, seen, step: error.step, code: error.code, attempts: error.attempts };
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("flaky");
    await peer.ended(run);
    assert.deepEqual(run.output, { value: 2, seen: [1, 2], step: "never", code: "NO", attempts: 1 });
  },
);

withWorker(
  "a sleep, a wait and a timeout park the function and bring it back",
  () => [
    workflow({
      name: "patient",
      run: async (ctx) => {
        await ctx.step.sleep("nap", 5);
        const yes = await ctx.step.waitForEvent<{ by: string }>("approve", { match: { a: 1 }, timeout: "5s" });
        const no = await ctx.step.waitForEvent("never", { timeout: "10ms" });
        return { yes, no };
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("patient");
    await peer.until(() => run.waits.has("approve"), "it waits");
    assert.deepEqual(run.waits.get("approve")?.match, { a: 1 });
    peer.signal(run, "approve", { by: "me" });
    await peer.ended(run);
    assert.deepEqual(run.output, { yes: { by: "me" }, no: null });
    const kinds = peer.results.map((sent) => sent.kind);
    assert.deepEqual(kinds, ["sleep", "blocked", "wait", "blocked", "wait", "blocked", "returned"]);
    // Each travels with the sleep or wait that blocks.
    assert.deepEqual(peer.batches, [2, 2, 2, 1]);
  },
);
