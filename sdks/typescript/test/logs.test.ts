import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { begin, done, settle } from "./recording-host.js";

describe("logs", () => {
  it("are silent while replaying, and belong to the step that runs alone", async () => {
    const { host } = begin([done("a", 2)], async (ctx) => {
      ctx.log.info("begin");
      await ctx.step.run("a", () => 1);
      ctx.log.info("replayed");
      await ctx.step.run("b", async (step) => {
        ctx.log.warn("within", { n: 1 });
        step.log.info("exactly");
      });
    });
    await settle();
    assert.deepEqual(host.lines, ["info replayed", 'b: warn within {"n":1}', "b: info exactly"]);
    const report = host.reports[0];
    assert.ok(report?.kind === "completed");
    assert.deepEqual(report.logs, ['warn within {"n":1}', "info exactly"]);
  });

  it("belong to no step while two steps run, unless the step's own log is used", async () => {
    const { host } = begin([], async (ctx) => {
      await Promise.all([
        ctx.step.run("a", async (step) => {
          await null;
          ctx.log.info("whose");
          step.log.info("a's");
        }),
        ctx.step.run("b", async () => {
          for (let i = 0; i < 5; i++) await null;
        }),
      ]);
    });
    await settle();
    assert.deepEqual(host.lines, ["info whose", "a: info a's"]);
  });

  it("of a step are cut at 64 KiB, with a mark", async () => {
    const { host } = begin([], async (ctx) =>
      ctx.step.run("a", (step) => {
        for (let i = 0; i < 100; i++) step.log.info("x".repeat(1_000));
      }),
    );
    await settle();
    const report = host.reports[0];
    assert.ok(report?.kind === "completed" && report.logs !== undefined);
    assert.ok(report.logs.join("\n").length <= 65_536);
    assert.match(report.logs.at(-1) ?? "", /cut/);
  });
});
