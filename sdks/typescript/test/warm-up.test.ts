import assert from "node:assert/strict";
import { test } from "node:test";
import { workflow } from "../src/runtime.js";
import { warmUp } from "../src/warm-up.js";
import { withWorker } from "./with-worker.js";

test("synthetic runs execute to their end, and stop when their time is over", async () => {
  assert.ok((await warmUp(10_000)) > 1);
  assert.equal(await warmUp(0), 0);
});

const double = workflow({ name: "double", run: (ctx, input: number) => ctx.step.run("double", () => 2 * input) });

withWorker("the server learns nothing of synthetic runs", () => [double], async (server) => {
  const run = server.start("double", 21);
  await server.ended(run);
  assert.equal(run.output, 42);
  assert.deepEqual([...new Set(server.reports.map((report) => report.run))], [run.id]);
  assert.deepEqual(server.hellos.flatMap((hello) => hello.workflows.map(({ name }) => name)), ["double"]);
});
