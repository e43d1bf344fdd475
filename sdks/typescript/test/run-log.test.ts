// The lines that a worker logs about its runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRecord } from "../src/log.js";
import { NonRetriableError, serve, workflow } from "../src/runtime.js";
import { FakeServer } from "./fake-server.js";
import { withWorker } from "./with-worker.js";

interface Line {
  level: string;
  message: string;
  fields: Record<string, unknown> | undefined;
}

const lines: Line[] = [];
const write = (level: string) => (message: string, fields?: object) => void lines.push({ level, message, fields: fields as Line["fields"] });
const logger = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };

/** The lines of a run, as level and message. */
const linesOf = (run: { id: string }) => lines.filter((line) => line.fields?.["run"] === run.id).map((line) => `${line.level} ${line.message}`);

withWorker(
  "every failed attempt is logged with its stack, and so is the failure of the run",
  () => [
    workflow({
      name: "charge",
      run: (ctx) =>
        ctx.step.run("pay", (step) => {
          throw Object.assign(new Error(`declined ${step.attempt}`), { code: "DECLINED" });
        }),
    }),
    workflow({ name: "final", run: (ctx) => ctx.step.run("pay", () => Promise.reject(new NonRetriableError("no such card"))) }),
  ],
  async (server) => {
    lines.length = 0;
    const run = server.start("charge");
    await server.ended(run);
    await server.until(() => lines.some((line) => line.level === "error"), "the run is logged");
    assert.deepEqual(linesOf(run), [
      'warn step "pay" failed in attempt 1 of 3: declined 1',
      'warn step "pay" failed in attempt 2 of 3: declined 2',
      'warn step "pay" failed in attempt 3 of 3 and is not retried: declined 3',
      'error run failed at step "pay": declined 3',
    ]);
    const [first] = lines;
    const { stack, ...fields } = first?.fields ?? {};
    assert.deepEqual(fields, { workflow: "charge", run: run.id, step: "pay", attempt: 1, code: "DECLINED" });
    assert.match(String(stack), /^Error: declined 1\n +at .*run-log\.test/);
    const final = server.start("final");
    await server.ended(final);
    await server.until(() => linesOf(final).length === 2, "the run is logged");
    assert.deepEqual(linesOf(final), ['warn step "pay" failed in attempt 1 of 3 and is not retried: no such card', 'error run failed at step "pay": no such card']);
  },
  { logger },
);

withWorker(
  "an error outside steps is logged and reported with its stack",
  () => [
    workflow({
      name: "broken",
      run: () => {
        throw new TypeError("x is undefined");
      },
    }),
  ],
  async (server) => {
    lines.length = 0;
    const run = server.start("broken");
    await server.ended(run);
    await server.until(() => lines.length > 0, "the run is logged");
    assert.deepEqual(linesOf(run), ["error run failed: x is undefined"]);
    const stack = /^TypeError: x is undefined\n +at .*run-log\.test/;
    assert.match(String(lines[0]?.fields?.["stack"]), stack);
    const { error } = server.reports.find((sent) => sent.kind === "threw") as { error?: { stack?: string } };
    assert.match(error?.stack ?? "", stack);
    assert.ok((error?.stack ?? "").length <= 8_192);
  },
  { logger },
);

withWorker(
  "a paused run is logged with the reason and the remedy",
  () => [
    workflow({
      name: "twice",
      run: async (ctx) => {
        await ctx.step.run("a", () => 1);
        await ctx.step.run("a", () => 2);
      },
    }),
  ],
  async (server) => {
    lines.length = 0;
    const run = server.start("twice");
    await server.ended(run);
    await server.until(() => lines.length > 0, "the pause is logged");
    assert.equal(run.status, "diverged");
    assert.equal(lines[0]?.level, "error");
    assert.match(lines[0]?.message ?? "", new RegExp(`^run paused: step "a" is used twice.*; make the function request.*new version; then run: everstep resume ${run.id}$`));
    assert.deepEqual(lines[0]?.fields, { workflow: "twice", run: run.id, code: "NONDETERMINISTIC" });
  },
  { logger },
);

withWorker(
  "runs of another version, failed calls, refused outputs and cancelled runs are logged",
  () => [
    workflow({ name: "waits", version: 3, run: (ctx) => ctx.step.waitForEvent("go") }),
    workflow({ name: "calls", run: (ctx) => ctx.step.call("child", "other", 1).catch(() => "caught") }),
    workflow({ name: "deep", run: (ctx) => ctx.step.run("a", () => "kept?").catch(() => "caught") }),
  ],
  async (server) => {
    lines.length = 0;
    const declined = server.start("waits", null, 2);
    await server.ended(declined);
    const reason = "this worker serves workflow waits in version 3, and the run has version 2";
    assert.deepEqual(linesOf(declined), [`warn ${reason}: another worker gets the run; serve version 2 until its runs have ended`]);

    const calls = server.start("calls");
    await server.until(() => calls.known.has("child"), "the call is open");
    server.wake(calls, { step: "child", kind: "call", seq: ++calls.seq, status: "failed", error: { code: "NO", message: "child run of other failed: no", attempts: 1 } });
    await server.ended(calls);
    assert.deepEqual(linesOf(calls), ['warn step "child" failed: child run of other failed: no']);

    server.onReport = (sent) => (sent.step === "a" ? "keep" : "take");
    const deep = server.start("deep");
    await server.until(() => server.reports.some((sent) => sent.step === "a"), "the step is reported");
    const n = server.reports.find((sent) => sent.step === "a")?.n ?? 0;
    const error = { code: "PAYLOAD_TOO_DEEP", message: "the output is nested too deeply", attempts: 1 };
    server.tell({ acks: [[n, 3]], wakes: [{ run: deep.id, turn: 1, step: "a", kind: "run", seq: 3, status: "failed", error }] });
    await server.ended(deep);
    assert.deepEqual(linesOf(deep), ['warn step "a" failed: the output is nested too deeply']);

    const cancelled = server.start("waits", null, 3);
    await server.until(() => cancelled.waits.has("go"), "it waits");
    server.tell({ cancels: [{ run: cancelled.id, turn: 1 }] });
    await server.until(() => linesOf(cancelled).length > 0, "the end is logged");
    assert.deepEqual(linesOf(cancelled), ["info run was cancelled, or has failed at the server"]);
  },
  { logger },
);

withWorker(
  "a run that the server takes from its worker is logged with the reason",
  () => [workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go") })],
  async (server) => {
    const taken = async (message: object) => {
      const run = server.start("waits");
      await server.until(() => run.waits.has("go"), "it waits");
      const lost = (reasons: object) => [{ run: run.id, turn: 1, ...reasons }];
      server.tell(Object.fromEntries(Object.entries(message).map(([list, reasons]) => [list, lost(reasons)])));
      // A later run shows that the message was processed.
      const next = server.start("waits");
      await server.until(() => next.waits.has("go"), "the next run waits");
      return linesOf(run).map((line) => line.replace(run.id, "RUN"));
    };
    lines.length = 0;
    assert.deepEqual(await taken({ cancels: { reason: "cancelled", detail: "duplicate order" } }), ["info run was cancelled: duplicate order"]);
    assert.deepEqual(await taken({ cancels: { reason: "failed", detail: "JOURNAL_TOO_LONG: the journal reached 500000 entries" } }), [
      "info run has failed at the server: JOURNAL_TOO_LONG: the journal reached 500000 entries",
    ]);
    assert.deepEqual(await taken({ cancels: { reason: "ended" } }), ["info run has ended at the server"]);
    const remedy = "to continue it, run: everstep resume RUN";
    assert.deepEqual(await taken({ revoked: { reason: "paused" } }), [`info run was paused; ${remedy}`]);
    assert.deepEqual(await taken({ revoked: { reason: "paused", detail: "a request paused it" } }), [`info run was paused: a request paused it; ${remedy}`]);
    assert.deepEqual(await taken({ revoked: { reason: "moved" } }), ["info run continues in another turn, here or at another worker"]);
    // A run that waits is revoked without a line; so is one of a server that gives no reason.
    assert.deepEqual(await taken({ revoked: { reason: "parked" } }), []);
    assert.deepEqual(await taken({ revoked: {} }), []);
  },
  { logger },
);

withWorker(
  "a logger that throws fails no run",
  () => [workflow({ name: "logs", run: (ctx) => ctx.step.run("a", (step) => (step.log.info("begun"), Promise.reject(new NonRetriableError("no"))).catch(() => 5)) })],
  async (server) => {
    const run = server.start("logs");
    await server.ended(run);
    assert.deepEqual([run.status, run.output], ["completed", 5]);
  },
  {
    logger: {
      ...logger,
      info: () => {
        throw new Error("the disk is full");
      },
    },
  },
);

test("a worker logs to standard error by default, and nothing with logger: false", async (t) => {
  const written = t.mock.method(console, "error", () => {});
  for (const options of [{}, { logger: false as const }]) {
    const server = new FakeServer();
    await server.listen();
    const failing = workflow({
      name: "failing",
      run: (ctx) => {
        ctx.log.info("begun", { n: 1 });
        throw new Error("first line\nsecond line");
      },
    });
    const worker = serve({ url: server.url, apiKey: "es_test", workflows: [failing], ...options });
    await worker.ready;
    const run = server.start("failing");
    await server.ended(run);
    await worker.stop();
    await server.close();
    const texts = written.mock.calls.map((call) => String(call.arguments[0]));
    written.mock.resetCalls();
    if ("logger" in options) {
      assert.deepEqual(texts, []);
      continue;
    }
    const time = "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z";
    assert.equal(texts.length, 2);
    assert.match(texts[0] ?? "", new RegExp(`^${time} info begun workflow=failing run=${run.id} n=1$`));
    assert.match(texts[1] ?? "", new RegExp(`^${time} error run failed: first line second line workflow=failing run=${run.id}\n    Error: first line\n    second line\n +at `));
  }
});

test("a line has its fields behind the message, whatever they are", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const fields = { run: "r-1", text: "two words", list: [1], none: undefined, big: 1n, cyclic, stack: 5 };
  const line = formatRecord(new Date(0), "warn", "hello", fields);
  assert.equal(line, '1970-01-01T00:00:00.000Z warn hello run=r-1 text="two words" list=[1] big=(not JSON) cyclic=(not JSON) stack=5');
});
