// A worker and its connection: refused, cut, silent, answered by others.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { serve, workflow } from "../src/runtime.js";
import { patient, sum } from "./flows.js";
import { Peer } from "./peer.js";

test("an answer of somebody on the way ends no worker and no session", async () => {
  const peer = new Peer();
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [patient], transport: "http" });
  await worker.ready;
  const run = peer.start("patient");
  await peer.until(() => run.waits.has("go"), "it waits");
  const answers = [
    { status: 404, text: "<h1>default backend</h1>" },
    { status: 413, text: "" },
    { status: 502, text: "<h1>bad gateway</h1>" },
  ];
  peer.onRequest = () => answers.shift();
  peer.cut();
  await peer.until(() => answers.length === 0, "they are given");
  peer.signal(run, "go", { yes: true });
  await peer.ended(run);
  assert.deepEqual(run.output, { yes: true });
  assert.equal(peer.hellos.length, 1);
  await worker.stop();
  await peer.close();
});

test("where somebody on the way takes small requests only, reports travel in smaller ones, and what is too large fails alone", async () => {
  const peer = new Peer();
  await peer.listen();
  let refusals = 0;
  const most = 20_000;
  peer.onRequest = (_, bytes) => (bytes > most ? { status: 413, text: `<h1>too large: ${++refusals}</h1>` } : undefined);
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
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [wide, large, wordy], transport: "http" });
  await worker.ready;
  const runs = [peer.start("wide"), peer.start("large"), peer.start("wordy")] as const;
  for (const run of runs) await peer.ended(run, 10_000);
  assert.equal(runs[0].output, 40);
  assert.equal(runs[1].error?.code, "PAYLOAD_TOO_LARGE");
  assert.match(runs[1].error?.message ?? "", /somebody on the way refuses its 30\d\d\d bytes/);
  assert.equal(runs[2].output, 2, "logs are less than what the step gave, and than its next attempt");
  assert.ok(refusals > 0 && peer.longest <= most);
  assert.equal(peer.hellos.length, 1, "the session went on");
  await worker.stop();
  await peer.close();
});

test("a small message that is refused as too large is sent again, and not at once", async () => {
  const peer = new Peer();
  await peer.listen();
  const refused: number[] = [];
  peer.onRequest = (path) => {
    if (!path.endsWith("/reports") || refused.length === 2) return undefined;
    refused.push(performance.now());
    return { status: 413, text: "" };
  };
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [sum], transport: "http" });
  await worker.ready;
  const run = peer.start("sum", { upTo: 0 });
  await peer.ended(run);
  const [first = 0, second = 0] = refused;
  assert.ok(second - first >= 500);
  await worker.stop();
  await peer.close();
});

test("whoever prints a worker does not print its key", async () => {
  const peer = new Peer();
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test\n", logger: false, workflows: [sum] });
  await worker.ready;
  assert.doesNotMatch(inspect(worker, { depth: 4 }), /es_test/);
  await worker.stop();
  await peer.close();
});

test("a worker whose socket is refused because nobody is there just now keeps to the socket", async () => {
  const peer = new Peer();
  peer.refuseSocket = 503;
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [sum] });
  await peer.until(() => peer.refusals > 0, "it is refused");
  peer.refuseSocket = undefined;
  await worker.ready;
  assert.equal(worker.transport, "socket");
  await peer.ended(peer.start("sum", { upTo: 2 }));
  await worker.stop();
  await peer.close();
});

test("a worker goes on over HTTP where a proxy refuses the socket", async () => {
  const peer = new Peer();
  peer.refuseSocket = 400;
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [sum] });
  await worker.ready;
  assert.equal(worker.transport, "http");
  const run = peer.start("sum", { upTo: 2 });
  await peer.ended(run);
  await worker.stop();
  await peer.close();
});

for (const transport of ["socket", "http"] as const) {
  test(`a worker whose key is refused ends with the reason (${transport})`, async () => {
    const peer = new Peer();
    await peer.listen();
    const worker = serve({ url: peer.url, apiKey: "es_wrong", logger: false, workflows: [sum], transport });
    await assert.rejects(worker.closed, { name: "ApiError", status: 401, code: "AUTH_ERROR" });
    await assert.rejects(worker.ready, { status: 401 });
    await peer.close();
  });

  test(`a worker waits for a server that is not there yet (${transport})`, async () => {
    const before = new Peer();
    const url = await before.listen();
    await before.close();
    const worker = serve({ url, apiKey: "es_test", logger: false, workflows: [sum], transport });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const peer = new Peer();
    await new Promise<void>((resolve) => peer.server.listen(Number(new URL(url).port), "127.0.0.1", resolve));
    await worker.ready;
    await peer.ended(peer.start("sum", { upTo: 1 }));
    await worker.stop();
    await peer.close();
  });
}

for (const text of ["<h1>sign in first</h1>", "null", "{}"]) {
  test(`an answer that is none of the server's is no answer: ${text}`, async () => {
    const peer = new Peer();
    const once = new Set(["/v1/worker/sessions", "/v1/worker/poll", "/v1/worker/reports"]);
    peer.onRequest = (path) => (once.delete(path) ? { status: 200, text } : undefined);
    await peer.listen();
    const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [sum], transport: "http" });
    await worker.ready;
    await peer.ended(peer.start("sum", { upTo: 2 }));
    assert.equal(once.size, 0);
    await worker.stop();
    await peer.close();
  });
}

test("a worker whose key is refused while a signal drains it says so once, by what it has closed with", async () => {
  const peer = new Peer();
  await peer.listen();
  const slow = workflow({ name: "slow", run: (ctx) => ctx.step.run("a", () => new Promise(() => {})) });
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [slow], transport: "http", handleSignals: true });
  await worker.ready;
  peer.start("slow");
  await peer.until(() => worker.running === 1, "it runs");
  peer.onRequest = () => ({ status: 401, text: "" });
  process.listeners("SIGTERM").at(-1)?.("SIGTERM");
  await assert.rejects(worker.closed, { status: 401 });
  // A rejection that nobody handles would fail this test.
  await new Promise((resolve) => setTimeout(resolve, 20));
  await peer.close();
});

test("a worker that is stopped while it has no connection says goodbye all the same", async () => {
  const peer = new Peer();
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, workflows: [patient], transport: "socket" });
  await worker.ready;
  const run = peer.start("patient");
  await peer.until(() => run.waits.has("go"), "it waits");
  const [session] = [...peer.sessions.keys()];
  peer.refuseSocket = 503;
  peer.cut();
  await peer.until(() => [...peer.sessions.values()][0]?.socket === undefined, "the socket is lost");
  await peer.until(() => peer.refusals > 0, "it is refused another");
  await worker.stop();
  assert.deepEqual(peer.byes, [`/v1/worker/sessions/${session}`]);
  await peer.close();
});

test("a worker whose lease has run out by its own clock starts no step until it has heard from the server", async () => {
  const peer = new Peer();
  peer.leaseSeconds = 0.4;
  await peer.listen();
  let began = 0;
  const worker = serve({
    url: peer.url,
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
  const other = peer.start("other");
  const run = peer.start("blocks");
  await peer.ended(run);
  await peer.ended(other);
  assert.ok(began > 0);
  // Its code outside steps went on at once after the block, and its step waited for an answer.
  assert.ok((peer.reports.find((sent) => sent.step === "late")?.output as number) > 0.05);
  await worker.stop();
  await peer.close();
});

test("a worker pings after a third of its lease, and gives up a connection that does not answer", async () => {
  const peer = new Peer();
  peer.leaseSeconds = 0.6;
  await peer.listen();
  const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, transport: "socket", workflows: [sum] });
  await worker.ready;
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal(peer.resumed.length, 0, "pings keep the session");
  peer.isMute = true;
  await peer.until(() => peer.resumed.length > 0, "it comes again");
  peer.isMute = false;
  await peer.ended(peer.start("sum", { upTo: 2 }));
  await worker.stop();
  await peer.close();
});
