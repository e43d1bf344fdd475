import assert from "node:assert/strict";
import { test } from "node:test";
import { type Body, type Host, Replay } from "../src/replay.js";
import { workflow } from "../src/runtime.js";
import { test as runTest, type TestStep } from "../src/testing.js";
import type { Context } from "../src/types.js";
import type { StepRecord, Report } from "../src/wire.js";
import { settle } from "./recording-host.js";

/** Numbers that look random and are the same for a seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed + 0x9e3779b9;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return ((state ^ (state >>> 14)) >>> 0) % below;
  };
}

type Plan =
  | { kind: "run"; name: string; ticks: number; fails: boolean }
  | { kind: "sleep"; name: string; ms: number }
  | { kind: "wait"; name: string; ms: number }
  | { kind: "chain" | "all" | "race" | "settled"; parts: Plan[] };

function plan(random: (below: number) => number, depth: number, names: { next: number }): Plan {
  const name = `s${names.next++}`;
  const choice = random(depth === 0 ? 4 : 9);
  if (choice < 2) return { kind: "run", name, ticks: random(4), fails: random(8) === 0 };
  if (choice === 2) return { kind: "sleep", name, ms: random(5) * 100 };
  if (choice === 3) return { kind: "wait", name, ms: 50 + random(5) * 100 };
  const kind = (["chain", "chain", "all", "race", "settled"] as const)[choice - 4] ?? "chain";
  return { kind, parts: Array.from({ length: 1 + random(4) }, () => plan(random, depth - 1, names)) };
}

/** Does what a plan says, with pauses of different lengths outside steps. */
async function follow(ctx: Context, plan: Plan, ran: string[]): Promise<unknown> {
  switch (plan.kind) {
    case "run":
      return await ctx.step
        .run(
          plan.name,
          async () => {
            ran.push(plan.name);
            for (let i = 0; i < plan.ticks; i++) await null;
            if (plan.fails) throw new Error(plan.name);
            return plan.name;
          },
          { retry: { attempts: 2, backoff: { base: 70, jitter: 0 } } },
        )
        .catch((error: Error) => `caught ${error.message}`);
    case "sleep":
      await ctx.step.sleep(plan.name, plan.ms);
      return plan.name;
    case "wait":
      return (await ctx.step.waitForEvent(plan.name, { event: "e", timeout: plan.ms })) ?? `no ${plan.name}`;
    case "chain": {
      const given: unknown[] = [];
      for (const part of plan.parts) given.push(await follow(ctx, part, ran));
      return given;
    }
    case "all":
      return await Promise.all(plan.parts.map((part) => follow(ctx, part, ran)));
    case "race": {
      let settle: (value: unknown) => void = () => {};
      const first = new Promise((resolve) => (settle = resolve));
      for (const [i, part] of plan.parts.entries()) void follow(ctx, part, ran).then((value) => settle([i, value]));
      return await first;
    }
    case "settled": {
      const order: unknown[] = [];
      await Promise.all(plan.parts.map((part) => follow(ctx, part, ran).then((value) => order.push(value))));
      return order;
    }
  }
}

/** What a function says that is given nothing but a journal. */
async function replay(steps: TestStep[], body: Body): Promise<Report[]> {
  const reports: Report[] = [];
  const host: Host = {
    report: (_, report) => reports.push(report),
    stuckChecksMax: 1,
    mayStart: () => true,
    stuck: () => assert.fail("nothing is slow here"),
    drained: () => {},
    stepDiscarded: () => {},
    writeLog: () => {},
    clock: () => 0,
  };
  const known = steps.map((step, i): StepRecord => {
    const base = { step: step.name, kind: step.kind, seq: i + 2 };
    if (step.status === "open") return { ...base, status: "open" };
    if (step.status === "failed") return { ...base, status: "failed", error: { code: "ERROR", attempts: 2, message: step.error?.message ?? "" } };
    if (step.kind === "run") return { ...base, status: "completed", output: step.output };
    if (step.kind === "sleep") return { ...base, status: "slept" };
    return step.output === null ? { ...base, status: "timedOut" } : { ...base, status: "resolved", payload: step.output };
  });
  const seq = known.length + 2;
  new Replay(host, { run: "r", turn: 1, workflow: "w", version: 1, input: null, startedAt: "2026-05-01T12:00:00Z", seq, steps: known }).begin(body);
  await settle();
  return reports;
}

test("whatever crashes when, a run ends as its journal says it does", async () => {
  let crashes = 0;
  for (let seed = 0; seed < 400; seed++) {
    const random = numbers(seed);
    const names = { next: 0 };
    const planned: Plan = { kind: "chain", parts: Array.from({ length: 1 + random(4) }, () => plan(random, 3, names)) };
    const ran: string[] = [];
    const body = (ctx: Context) => follow(ctx, planned, ran);
    const all = Array.from({ length: names.next }, (_, i) => `s${i}`);
    const crashAfter = all.filter(() => random(3) === 0);
    const signals = Array.from({ length: random(4) }, (_, i) => ({ event: "e", payload: { i }, at: random(10) * 60 }));
    const result = await runTest(workflow({ name: "fuzz", run: body }), { input: null, crashAfter, signals });
    assert.equal(result.status, "completed", `seed ${seed}: ${JSON.stringify(result.error)}`);
    crashes += result.turns - 1;
    const reports = await replay(result.steps, body as Body);
    assert.equal(reports.length, 1, `seed ${seed}: ${JSON.stringify(reports)}`);
    // Losers of races are awaited: neither the test nor the report names them.
    assert.deepEqual(reports[0], { kind: "returned", json: JSON.stringify(result.output) }, `seed ${seed}`);
    for (const step of result.steps) {
      if (step.kind === "run" && step.status === "completed") assert.equal(ran.filter((name) => name === step.name).length >= 1, true);
    }
  }
  assert.ok(crashes > 500, `only ${crashes} crashes`);
});
