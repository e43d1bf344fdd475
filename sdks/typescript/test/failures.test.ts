import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StepRecord } from "../src/wire.js";
import { begin, done, settle, until } from "./recording-host.js";

describe("a run", () => {
  it("fails with the step whose failure was not caught", async () => {
    const error = { code: "DOWN", message: "no", attempts: 3 };
    const { host } = begin([{ step: "a", kind: "run", seq: 2, status: "failed", error }], async (ctx) => ctx.step.run("a", () => 1));
    await settle();
    const report = host.reports[0];
    assert.ok(report?.kind === "threw");
    assert.equal(report.step, "a");
    assert.equal(report.error.code, "DOWN");
  });

  it("fails with the step whose failure caused what was thrown", async () => {
    const error = { code: "DOWN", message: "no", attempts: 3 };
    const known: StepRecord[] = [{ step: "a", kind: "run", seq: 2, status: "failed", error }, done("b", 3)];
    const wrap = [(reason: unknown) => new Error("not all", { cause: reason }), (reason: unknown) => new AggregateError([reason], "not all")];
    for (const wrapped of wrap) {
      const { host } = begin(known, async (ctx) => {
        const [a] = await Promise.allSettled([ctx.step.run("a", () => 1), ctx.step.run("b", () => 1)]);
        if (a.status === "rejected") throw wrapped(a.reason);
      });
      await settle();
      const report = host.reports[0];
      assert.ok(report?.kind === "threw");
      assert.equal(report.step, "a");
    }
  });

  it("survives an error in parallel steps that are not awaited yet", async () => {
    const error = { code: "DOWN", message: "no", attempts: 3 };
    const { host } = begin([{ step: "a", kind: "run", seq: 2, status: "failed", error }, done("b", 3)], async (ctx) => {
      const a = ctx.step.run("a", () => 1);
      await ctx.step.run("b", () => 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      return a.catch(() => "caught");
    });
    await until(() => host.reports.length > 0);
    assert.deepEqual(host.reports, [{ kind: "returned", json: '"caught"' }]);
  });

  it("survives an error in parallel helpers that are not awaited yet", async () => {
    const error = { code: "DOWN", message: "no", attempts: 3 };
    const helpers: ((step: Promise<unknown>) => Promise<unknown>)[] = [
      async (step) => await step,
      (step) => step.then(() => "done"),
      (step) =>
        step.catch((cause) => {
          throw new Error("wrapped", { cause });
        }),
      (step) => Promise.any([step]),
    ];
    for (const helper of helpers) {
      const { host } = begin([{ step: "a", kind: "run", seq: 2, status: "failed", error }, done("b", 3)], async (ctx) => {
        const a = helper(ctx.step.run("a", () => 1));
        await ctx.step.run("b", () => 1);
        await new Promise((resolve) => setTimeout(resolve, 5));
        return a.catch(() => "caught");
      });
      await until(() => host.reports.length > 0);
      assert.deepEqual(host.reports, [{ kind: "returned", json: '"caught"' }]);
      assert.match(host.lines.join(), /^warn a promise was rejected before the function awaits it: .* {"step":"a"}$/);
    }
  });

  it("fails a step without a retry if its return value is not JSON", async () => {
    const { host } = begin([], async (ctx) => ctx.step.run("a", () => 1n));
    await settle();
    const report = host.reports[0];
    assert.ok(report?.kind === "failed" && report.error.retryable === false && report.error.code === "NOT_JSON");
  });
});

describe("a step", () => {
  it("that gives a function which is a thenable waits for it", async () => {
    const query = Object.assign(() => 1, { then: (resolve: (value: string) => void) => resolve("rows") });
    const { host } = begin([], (ctx) => ctx.step.run("a", () => query));
    await settle();
    const report = host.reports[0];
    assert.ok(report?.kind === "completed");
    assert.equal(report.json, '"rows"');
  });
});

describe("an error", () => {
  /** The error in the report of a step that has thrown this value. */
  const reported = async (error: unknown) => {
    const { host } = begin([], (ctx) => ctx.step.run("a", () => Promise.reject(error)));
    await settle();
    const report = host.reports[0];
    assert.ok(report?.kind === "failed");
    return report.error;
  };

  it("fails its step, however odd it is", async () => {
    const unreadable = {
      get message() {
        throw new Error("no");
      },
    };
    const cases: [unknown, string][] = [
      [Object.assign(new Error("x"), { message: 404, stack: 5 }), "404"],
      [Object.assign(new Error("x"), { message: ["a", "b"] }), '["a","b"]'],
      [Object.assign(new Error(""), { name: "Odd" }), "Odd"],
      [Object.create(null), "{}"],
      [{ reason: "none" }, '{"reason":"none"}'],
      [unreadable, "the value that was thrown cannot be read"],
      [undefined, "undefined"],
      [null, "null"],
      [Symbol("s"), "Symbol(s)"],
      [1n, "1"],
      ["text", "text"],
    ];
    for (const [error, message] of cases) assert.equal((await reported(error)).message, message);
    assert.equal((await reported(Object.assign(new Error("x"), { stack: 5 }))).stack, undefined);
  });

  it("that is a plain object keeps its code and message", async () => {
    assert.deepEqual(await reported({ code: "DECLINED", message: "no money", stack: "s" }), {
      code: "DECLINED",
      message: "no money",
      stack: "s",
      retryable: true,
    });
    assert.equal((await reported({ code: 5, message: "no" })).code, undefined);
  });

  it("is reported with its causes", async () => {
    const refused = Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" });
    const failed = await reported(new TypeError("fetch failed", { cause: refused }));
    assert.equal(failed.message, "fetch failed: connect ECONNREFUSED 127.0.0.1:1");
    assert.match(failed.stack ?? "", /TypeError: fetch failed\n.*\ncaused by: Error: connect ECONNREFUSED/s);
    const slow = Object.assign(new Error("too slow"), { code: "SLOW" });
    assert.equal((await reported(new Error("no", { cause: slow }))).message, "no: SLOW: too slow");
    assert.equal((await reported(new Error("no: too slow", { cause: new Error("too slow") }))).message, "no: too slow");
    const many = Object.assign(new AggregateError([refused]), { code: "ECONNREFUSED" });
    assert.equal((await reported(new Error("fetch failed", { cause: many }))).message, "fetch failed: ECONNREFUSED");
    assert.equal((await reported(new AggregateError([refused], "all failed"))).message, "all failed: connect ECONNREFUSED 127.0.0.1:1");
    const endless = new Error("again");
    endless.cause = endless;
    assert.equal((await reported(endless)).stack?.match(/caused by/g)?.length, 5);
  });

  it("of a thenable fails its step too", async () => {
    const { host } = begin([], (ctx) =>
      Promise.all([
        ctx.step.run("getter", () => ({
          get then(): unknown {
            throw new Error("no then");
          },
        })),
        ctx.step.run("call", () => ({
          then() {
            throw new Error("no call");
          },
        })),
      ]),
    );
    await settle();
    assert.deepEqual(host.sent, ["failed getter", "failed call"]);
  });
});
