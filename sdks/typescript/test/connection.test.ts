// The connection of a worker: refused, cut, silent, or answered by a proxy.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { serve, workflow } from "../src/runtime.js";
import { patient, sum } from "./workflows.js";
import type { TransportListener } from "../src/transport.js";
import { FakeServer } from "./fake-server.js";
import { withWorker } from "./with-worker.js";

test("an answer of a proxy ends neither the worker nor the session", async () => {
  const server = new FakeServer();
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [patient], transport: "http" });
  await worker.ready;
  const run = server.start("patient");
  await server.until(() => run.waits.has("go"), "it waits");
  const answers = [
    { status: 404, text: "<h1>default backend</h1>" },
    { status: 413, text: "" },
    { status: 502, text: "<h1>bad gateway</h1>" },
  ];
  server.onRequest = () => answers.shift();
  server.cut();
  await server.until(() => answers.length === 0, "they are given");
  server.signal(run, "go", { yes: true });
  await server.ended(run);
  assert.deepEqual(run.output, { yes: true });
  assert.equal(server.hellos.length, 1);
  await worker.stop();
  await server.close();
});

test("behind a proxy that accepts small requests only, reports are sent in smaller batches, and one that is too large fails alone", async () => {
  const server = new FakeServer();
  await server.listen();
  let refusals = 0;
  const most = 20_000;
  server.onRequest = (_, bytes) => (bytes > most ? { status: 413, text: `<h1>too large: ${++refusals}</h1>` } : undefined);
  const text = (length: number) => "x".repeat(length);
  const wide = workflow({ name: "wide", run: async (ctx) => (await Promise.all(Array.from({ length: 40 }, (_, i) => ctx.step.run(`s${i}`, () => text(1_000))))).length });
  const large = workflow({ name: "large", run: (ctx) => ctx.step.run("a", () => text(30_000)) });
  const wordy = workflow({
    name: "wordy",
    run: (ctx) =>
      ctx.step.run("a", (step) => {
        for (let i = 0; i < 30; i++) step.log.info(text(1_000));
        if (step.attempt === 1) throw new Error("not yet");
        return step.attempt;
      }),
  });
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [wide, large, wordy], transport: "http" });
  await worker.ready;
  const runs = [server.start("wide"), server.start("large"), server.start("wordy")] as const;
  for (const run of runs) await server.ended(run, 10_000);
  assert.equal(runs[0].output, 40);
  assert.equal(runs[1].error?.code, "PAYLOAD_TOO_LARGE");
  assert.match(runs[1].error?.message ?? "", /a proxy or the server refuses the report, which has 30\d\d\d bytes; store large values elsewhere/);
  assert.equal(runs[2].output, 2, "logs are less than what the step gave, and than its next attempt");
  assert.ok(refusals > 0 && server.longest <= most);
  assert.equal(server.hellos.length, 1, "the session went on");
  await worker.stop();
  await server.close();
});

test("a small message that is refused as too large is sent again, and not at once", async () => {
  const server = new FakeServer();
  await server.listen();
  const refused: number[] = [];
  server.onRequest = (path) => {
    if (!path.endsWith("/reports") || refused.length === 2) return undefined;
    refused.push(performance.now());
    return { status: 413, text: "" };
  };
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [sum], transport: "http" });
  await worker.ready;
  const run = server.start("sum", { upTo: 0 });
  await server.ended(run);
  const [first = 0, second = 0] = refused;
  assert.ok(second - first >= 500);
  await worker.stop();
  await server.close();
});

test("printing a worker does not print its key", async () => {
  const server = new FakeServer();
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test\n", logger: false, workflows: [sum] });
  await worker.ready;
  assert.doesNotMatch(inspect(worker, { depth: 4 }), /es_test/);
  await worker.stop();
  await server.close();
});

test("a worker whose socket is refused because the server is unavailable keeps the socket transport", async () => {
  const server = new FakeServer();
  server.refuseSocket = 503;
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [sum] });
  await server.until(() => server.refusals > 0, "it is refused");
  server.refuseSocket = undefined;
  await worker.ready;
  assert.equal(worker.transport, "socket");
  await server.ended(server.start("sum", { upTo: 2 }));
  await worker.stop();
  await server.close();
});

test("a worker falls back to HTTP if a proxy refuses the socket", async () => {
  const server = new FakeServer();
  server.refuseSocket = 400;
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [sum] });
  await worker.ready;
  assert.equal(worker.transport, "http");
  const run = server.start("sum", { upTo: 2 });
  await server.ended(run);
  await worker.stop();
  await server.close();
});

for (const transport of ["socket", "http"] as const) {
  test(`a worker whose key is refused ends with the reason (${transport})`, async () => {
    const server = new FakeServer();
    await server.listen();
    const worker = serve({ url: server.url, apiKey: "es_wrong", logger: false, workflows: [sum], transport });
    await assert.rejects(worker.closed, { name: "ApiError", status: 401, code: "AUTH_ERROR" });
    await assert.rejects(worker.ready, { status: 401 });
    await server.close();
  });

  test(`a worker waits for a server that is not there yet (${transport})`, async () => {
    const before = new FakeServer();
    const url = await before.listen();
    await before.close();
    const worker = serve({ url, apiKey: "es_test", logger: false, workflows: [sum], transport });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const server = new FakeServer();
    await new Promise<void>((resolve) => server.http.listen(Number(new URL(url).port), "127.0.0.1", resolve));
    await worker.ready;
    await server.ended(server.start("sum", { upTo: 1 }));
    await worker.stop();
    await server.close();
  });
}

for (const transport of ["socket", "http"] as const) {
  test(`a worker whose connection is refused asks whether the server runs (${transport})`, async () => {
    const before = new FakeServer();
    const url = await before.listen();
    await before.close();
    const lines: string[] = [];
    const note = (line: string) => void lines.push(line);
    const worker = serve({ url, apiKey: "es_test", workflows: [sum], transport, logger: { debug: note, info: note, warn: note, error: note } });
    await before.until(() => lines.length > 0, "the worker logs");
    await Promise.all([worker.stop(), assert.rejects(worker.ready)]);
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? "", /the server cannot be reached, the worker keeps trying: .* ECONNREFUSED .*\(is `everstep serve` running at http:\/\/127\.0\.0\.1:\d+\?/);
  });
}

for (const text of ["<h1>sign in first</h1>", "null", "{}"]) {
  test(`an answer that is none of the server's is no answer: ${text}`, async () => {
    const server = new FakeServer();
    const once = new Set(["/v1/worker/sessions", "/v1/worker/poll", "/v1/worker/reports"]);
    server.onRequest = (path) => (once.delete(path) ? { status: 200, text } : undefined);
    await server.listen();
    const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [sum], transport: "http" });
    await worker.ready;
    await server.ended(server.start("sum", { upTo: 2 }));
    assert.equal(once.size, 0);
    await worker.stop();
    await server.close();
  });
}

test("a worker whose key is refused while a signal drains it says so once, by what it has closed with", async () => {
  const server = new FakeServer();
  await server.listen();
  const slow = workflow({ name: "slow", run: (ctx) => ctx.step.run("a", () => new Promise(() => {})) });
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [slow], transport: "http", handleSignals: true });
  await worker.ready;
  server.start("slow");
  await server.until(() => worker.running === 1, "it runs");
  server.onRequest = () => ({ status: 401, text: "" });
  process.listeners("SIGTERM").at(-1)?.("SIGTERM");
  await assert.rejects(worker.closed, { status: 401 });
  // A rejection without a handler would fail this test.
  await new Promise((resolve) => setTimeout(resolve, 20));
  await server.close();
});

test("a worker that is stopped without a connection ends its session by a request", async () => {
  const server = new FakeServer();
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, workflows: [patient], transport: "socket" });
  await worker.ready;
  const run = server.start("patient");
  await server.until(() => run.waits.has("go"), "it waits");
  const [session] = [...server.sessions.keys()];
  server.refuseSocket = 503;
  server.cut();
  await server.until(() => [...server.sessions.values()][0]?.socket === undefined, "the socket is lost");
  await server.until(() => server.refusals > 0, "it is refused another");
  await worker.stop();
  assert.deepEqual(server.byes, [`/v1/worker/sessions/${session}`]);
  await server.close();
});

test("a worker whose lease has run out by its own clock starts no step until it has heard from the server", async () => {
  const server = new FakeServer();
  server.leaseSeconds = 0.4;
  await server.listen();
  let began = 0;
  const worker = serve({
    url: server.url,
    apiKey: "es_test",
    logger: false,
    transport: "socket",
    graceMs: 100,
    workflows: [
      workflow({
        name: "blocks",
        run: async (ctx) => {
          await ctx.step.run("a", () => {
            const end = Date.now() + 600;
            while (Date.now() < end);
          });
          await ctx.step.run("b", () => {
            began = performance.now();
          });
        },
      }),
      workflow({
        name: "other",
        run: async (ctx) => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          const at = performance.now();
          await ctx.step.run("late", () => performance.now() - at);
          return at;
        },
      }),
    ],
  });
  await worker.ready;
  const other = server.start("other");
  const run = server.start("blocks");
  await server.ended(run);
  await server.ended(other);
  assert.ok(began > 0);
  // Its code outside steps went on at once after the block, and its step waited for an answer.
  assert.ok((server.reports.find((sent) => sent.step === "late")?.output as number) > 0.05);
  await worker.stop();
  await server.close();
});

test("a worker pings after a third of its lease, and gives up a connection that does not answer", async () => {
  const server = new FakeServer();
  server.leaseSeconds = 0.6;
  await server.listen();
  const worker = serve({ url: server.url, apiKey: "es_test", logger: false, transport: "socket", workflows: [sum] });
  await worker.ready;
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(server.resumed.length, 0, "pings keep the session");
  server.isMute = true;
  await server.until(() => server.resumed.length > 0, "it comes again");
  server.isMute = false;
  await server.ended(server.start("sum", { upTo: 2 }));
  await worker.stop();
  await server.close();
});

const startedRuns: string[] = [];

withWorker(
  "messages that arrive out of order or twice are processed once and in order",
  () => [
    workflow({
      name: "endless",
      run: (ctx) => {
        startedRuns.push(ctx.run.id);
        return new Promise<null>(() => {});
      },
    }),
  ],
  async (_, worker) => {
    startedRuns.length = 0;
    const listener = worker as unknown as TransportListener;
    const turnOf = (run: string) => ({ run, turn: 1, workflow: "endless", version: 1, startedAt: "2026-05-01T12:00:00Z", seq: 1 });
    for (const m of [2, 4, 1, 2, 1, 3, 4, 5]) listener.received({ m, turns: [turnOf(`run-${m}`)] });
    assert.deepEqual(startedRuns, ["run-1", "run-2", "run-3", "run-4", "run-5"]);
    assert.equal(listener.seen, 5);
  },
);
