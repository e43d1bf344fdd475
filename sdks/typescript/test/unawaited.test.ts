// Steps that still run, or have failed, when the function ends without awaiting them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NonRetriableError, workflow } from "../src/runtime.js";
import { test } from "../src/testing.js";
import type { Context } from "../src/types.js";
import type { Report, StepRecord } from "../src/wire.js";
import { begin, done, settle } from "./recording-host.js";
import { withWorker } from "./with-worker.js";

const never = () => new Promise<never>(() => {});
const failed = (step: string, seq: number): StepRecord => ({ step, kind: "run", seq, status: "failed", error: { code: "DOWN", message: "no", attempts: 3 } });

/** The unawaited steps that a function reports at its end. */
async function reported(steps: StepRecord[], body: (ctx: Context) => unknown): Promise<string[] | undefined> {
  const { host } = begin(steps, body);
  await settle();
  const end = host.reports.find((report) => report.kind === "returned" || report.kind === "threw");
  assert.ok(end, host.sent.join());
  return "unawaited" in end ? end.unawaited : undefined;
}

describe("the end of a function names", () => {
  it("steps that still run and were not awaited", async () => {
    assert.deepEqual(await reported([], (ctx) => void ctx.step.run("one", never)), ["one"]);
    assert.deepEqual(await reported([], (ctx) => [1, 2].forEach(async (i) => void (await ctx.step.run(`s${i}`, never)))), ["s1", "s2"]);
    assert.deepEqual(await reported([], (ctx) => [1, 2].map(async (i) => ctx.step.run(`s${i}`, never)).length), ["s1", "s2"]);
    assert.deepEqual(await reported([done("a", 2)], async (ctx) => (await ctx.step.run("a", never), void [1].forEach(async (i) => ctx.step.run(`s${i}`, never)))), ["s1"]);
    assert.deepEqual(await reported([], (ctx) => void ctx.step.call("child", "other", 1)), ["child"]);
    const thrown = await reported([], (ctx) => {
      void ctx.step.run("one", never);
      throw new Error("no");
    });
    assert.deepEqual(thrown, ["one"]);
  });

  it("sleeps and waits that were not awaited", async () => {
    assert.deepEqual(await reported([], (ctx) => void [ctx.step.sleep("nap", "1h"), ctx.step.waitForEvent("go")]), ["nap", "go"]);
  });

  it("no step that has lost a race, whatever its kind", async () => {
    const losers = (ctx: Context) => [ctx.step.run("slow", never), ctx.step.call("child", "other", 1), ctx.step.sleep("deadline", "1h"), ctx.step.waitForEvent("stop")];
    const open: StepRecord = { step: "child", kind: "call", seq: 2, status: "open" };
    assert.equal(await reported([open, done("work", 3)], (ctx) => Promise.race([...losers(ctx), ctx.step.run("work", never)])), undefined);
    assert.equal(await reported([done("work", 2)], (ctx) => Promise.any([...losers(ctx), ctx.step.run("work", never)])), undefined);
    // The winner may be a promise outside steps.
    assert.equal(await reported([], (ctx) => Promise.race([...losers(ctx), null])), undefined);
    const helper = await reported([done("work", 2)], (ctx) => Promise.race([(async () => void (await ctx.step.run("slow", never)))(), ctx.step.run("work", never)]));
    assert.equal(helper, undefined);
  });

  it("no step that another one fails beside, and none that a handler is attached to", async () => {
    const all = await reported([failed("a", 2)], (ctx) => Promise.all([ctx.step.run("a", never), ctx.step.run("slow", never), (async () => void (await ctx.step.run("slower", never)))()]));
    assert.equal(all, undefined);
    const early = await reported([], (ctx) => Promise.all([(async () => void (await ctx.step.run("slow", never)))(), Promise.reject(new Error("no"))]));
    assert.equal(early, undefined);
    assert.equal(await reported([], (ctx) => void ctx.step.run("a", never).then(() => {})), undefined);
    assert.equal(await reported([], (ctx) => void ctx.step.run("a", never).finally(() => {})), undefined);
    assert.equal(await reported([failed("a", 2), done("b", 3)], (ctx) => [ctx.step.run("a", never).catch(() => {}), ctx.step.run("b", never)][1]), undefined);
  });

  it("steps whose failure was not awaited, directly or in a helper", async () => {
    const known = [failed("a", 2), done("b", 3)];
    const direct = await reported(known, async (ctx) => {
      void ctx.step.run("a", never);
      await ctx.step.run("b", never);
    });
    assert.deepEqual(direct, ["a"]);
    const helper = await reported(known, async (ctx) => {
      void (async () => void (await ctx.step.run("a", never)))();
      await ctx.step.run("b", never);
    });
    assert.deepEqual(helper, ["a"]);
  });

  it("no step whose failure is awaited later, or that has ended", async () => {
    const later = await reported([failed("a", 2), done("b", 3)], async (ctx) => {
      const direct = ctx.step.run("a", never);
      await ctx.step.run("b", never);
      await direct.catch(() => {});
    });
    assert.equal(later, undefined);
    const { host, replay } = begin([failed("a", 2)], async (ctx) => {
      const helper = (async () => void (await ctx.step.run("a", never)))();
      await ctx.step.run("b", () => 1);
      await helper.catch(() => {});
    });
    await settle();
    replay.acknowledge(host.reports[0] as Report, 3);
    await settle();
    assert.deepEqual(host.reports[1], { kind: "returned", json: "null" });
    const ended = await reported([done("a", 2), done("b", 3)], async (ctx) => {
      void ctx.step.run("a", never);
      await ctx.step.run("b", never);
    });
    assert.equal(ended, undefined);
  });

  it("at most 20 steps", async () => {
    const names = await reported([], (ctx) => Array.from({ length: 30 }, (_, i) => ctx.step.run(`s${i}`, never)).length);
    assert.deepEqual(names, Array.from({ length: 20 }, (_, i) => `s${i}`));
  });
});

describe("a test", () => {
  const early = workflow({
    name: "early",
    run: async (ctx) => {
      void ctx.step.run("one", () => new Promise((resolve) => setTimeout(resolve, 20)));
      return "done";
    },
  });

  it("fails if a step was not awaited, unless that is allowed", async () => {
    await assert.rejects(test(early, { input: null }), {
      name: "AssertionError",
      message: 'workflow early: the function returned without awaiting step "one": missing await? Results of steps that still run are lost (allowUnawaited: true permits this)',
    });
    const allowed = await test(early, { input: null, allowUnawaited: true });
    assert.deepEqual([allowed.status, allowed.output, allowed.unawaited], ["completed", "done", ["one"]]);
  });

  it("fails if a failure was not awaited", async () => {
    const forgets = workflow({
      name: "forgets",
      run: async (ctx) => {
        void ctx.step.run("charge", () => Promise.reject(new NonRetriableError("declined")));
        await ctx.step.sleep("nap", "1m");
        throw new Error("no");
      },
    });
    await assert.rejects(test(forgets, { input: null }), /the function threw without awaiting step "charge": missing await\?/);
  });

  it("names the steps of called workflows", async () => {
    const parent = workflow({ name: "parent", run: (ctx) => ctx.step.call("child", early, null) });
    await assert.rejects(test(parent, { input: null, workflows: [early] }), /workflow parent: .* step "child\/one"/);
  });
});

const lines: [string, unknown][] = [];
const note = (message: string, fields?: object) => void lines.push([message, fields]);
const logger = { debug: note, info: note, warn: note, error: note };
const forgetful = () => [
  workflow({
    name: "forgetful",
    run: async (ctx) => {
      void ctx.step.run("one", (step) => new Promise((resolve) => step.signal.addEventListener("abort", resolve)));
      return "done";
    },
  }),
];

for (const isKnown of [false, true]) {
  withWorker(
    `a worker logs a warning, and reports the names ${isKnown ? "to a server that accepts them" : "to no other server"}`,
    forgetful,
    async (server) => {
      lines.length = 0;
      const run = server.start("forgetful");
      await server.ended(run);
      await server.until(() => lines.length > 0, "the warning is logged");
      const message = 'the function returned without awaiting step "one": missing await? Results of steps that still run are lost';
      assert.deepEqual(lines, [[message, { workflow: "forgetful", run: run.id, unawaited: ["one"] }]]);
      const sent = server.reports.find((report) => report.kind === "returned");
      assert.deepEqual(sent?.unawaited, isKnown ? ["one"] : undefined);
    },
    { logger, prepare: (server) => (server.features = isKnown ? ["unawaited"] : undefined) },
  );
}

withWorker(
  "a server that does not accept the names gets the report without them",
  forgetful,
  async (server) => {
    server.onReport = (sent) => (sent.unawaited === undefined ? "take" : { refuse: "VALIDATION_ERROR" });
    const run = server.start("forgetful");
    await server.ended(run);
    assert.deepEqual([run.status, run.output], ["completed", "done"]);
  },
  { prepare: (server) => (server.features = ["unawaited"]) },
);
