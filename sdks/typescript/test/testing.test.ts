import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NonRetriableError, workflow } from "../src/runtime.js";
import { contains } from "../src/test-run.js";
import { test } from "../src/testing.js";

interface User {
  id: number;
  email: string;
}
const sent: string[] = [];
const db = { users: { create: async (input: { email: string }): Promise<User> => ({ id: 42, ...input }) } };
const email = {
  send: async (id: number) => void sent.push(`welcome ${id}`),
  nudge: async (id: number) => void sent.push(`nudge ${id}`),
};

const onboardUser = workflow({
  name: "onboard-user",
  version: 1,
  retention: "30d",
  run: async (ctx, input: { email: string }) => {
    const user = await ctx.step.run("create-user", () => db.users.create(input));
    await ctx.step.sleep("welcome-delay", "5m");
    await ctx.step.run("send-welcome", () => email.send(user.id), { retry: { attempts: 5, backoff: { kind: "exp", base: "2s" } } });
    const verified = await ctx.step.waitForEvent("verify", { match: { userId: user.id }, timeout: "7d" });
    if (!verified) await ctx.step.run("nudge", () => email.nudge(user.id));
    return user.id;
  },
});

const DAY = 86_400_000;

describe("a workflow in a test", () => {
  it("skips sleeps and timeouts", async () => {
    const result = await test(onboardUser, { input: { email: "a@b.c" }, now: "2026-05-01T12:00:00Z" });
    assert.equal(result.status, "completed");
    assert.equal(result.output, 42);
    assert.equal(result.slept, 7 * DAY + 5 * 60_000);
    assert.deepEqual(
      result.steps.map((step) => [step.name, step.status, step.startedAt.toISOString()]),
      [
        ["create-user", "completed", "2026-05-01T12:00:00.000Z"],
        ["welcome-delay", "completed", "2026-05-01T12:00:00.000Z"],
        ["send-welcome", "completed", "2026-05-01T12:05:00.000Z"],
        ["verify", "completed", "2026-05-01T12:05:00.000Z"],
        ["nudge", "completed", "2026-05-08T12:05:00.000Z"],
      ],
    );
    assert.deepEqual(sent.splice(0), ["welcome 42", "nudge 42"]);
  });

  it("keeps texts that were cut in the middle of a character as the server would", async () => {
    const cuts = workflow({
      name: "cuts",
      run: async (ctx, input: string) => {
        const cut = await ctx.step.run("cut", () => ({ a: input.slice(0, 2), b: "\\ud83d", c: "\ud83d\ud83d!" }));
        return [cut, `${input.slice(1)}${input.slice(0, 2)}`];
      },
    });
    const { output } = await test(cuts, { input: "a\u{1f600}" });
    assert.deepEqual(output, [{ a: "a\ufffd", b: "\\ud83d", c: "\ufffd\ufffd!" }, "\u{1f600}a\ufffd"]);
  });

  it("takes a signal as soon as it is waited for, if it matches", async () => {
    const result = await test(onboardUser, { input: { email: "a@b.c" }, signals: [{ event: "verify", payload: { userId: 42, by: "link" } }] });
    assert.equal(result.slept, 5 * 60_000);
    assert.deepEqual(result.steps.at(-1)?.output, { userId: 42, by: "link" });
    const other = await test(onboardUser, { input: { email: "a@b.c" }, signals: [{ event: "verify", payload: { userId: 7 } }] });
    assert.equal(other.dropped.length, 1);
    assert.equal(other.steps.at(-1)?.name, "nudge");
  });

  it("takes any signal where nothing is to match", async () => {
    for (const match of [undefined, {}]) {
      const waits = workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("e", match === undefined ? {} : { match }) });
      for (const payload of [[1], "text", 5, { a: 1 }]) {
        assert.deepEqual((await test(waits, { input: null, signals: [{ event: "e", payload }] })).output, payload);
      }
    }
  });

  it("takes a signal at its time, and drops one that comes too early", async () => {
    const signal = { event: "verify", payload: { userId: 42 } };
    const early = await test(onboardUser, { input: { email: "a@b.c" }, signals: [{ ...signal, at: "1m" }] });
    assert.deepEqual(early.dropped, [{ ...signal, at: "1m" }]);
    const timely = await test(onboardUser, { input: { email: "a@b.c" }, signals: [{ ...signal, at: "2d" }] });
    assert.equal(timely.slept, 2 * DAY);
  });

  it("uses mocks, and names those that were not used", async () => {
    const result = await test(onboardUser, {
      input: { email: "a@b.c" },
      steps: { "create-user": { id: 1, email: "x" }, "send-welcome": () => null, other: 1 },
      signals: [{ event: "verify", payload: { userId: 1 } }],
    });
    assert.equal(result.output, 1);
    assert.deepEqual(result.unused, ["other"]);
    assert.deepEqual(sent.splice(0).slice(-1), ["welcome 42"]);
  });

  it("replays after a crash without running finished steps again", async () => {
    sent.length = 0;
    const result = await test(onboardUser, { input: { email: "a@b.c" }, crashAfter: ["create-user", "send-welcome", "welcome-delay", "verify"] });
    assert.equal(result.status, "completed");
    assert.equal(result.turns, 5);
    assert.deepEqual(sent.splice(0), ["welcome 42", "nudge 42"]);
  });

  it("runs a step again whose result was lost", async () => {
    const result = await test(onboardUser, { input: { email: "a@b.c" }, crashDuring: "send-welcome" });
    assert.equal(result.turns, 2);
    assert.deepEqual(sent.splice(0), ["welcome 42", "welcome 42", "nudge 42"]);
  });

  it("retries with the backoff of the policy, and fails with the last error", async () => {
    const attempts: number[] = [];
    const failing = workflow({
      name: "failing",
      run: async (ctx) =>
        ctx.step.run(
          "call",
          (step) => {
            attempts.push(step.attempt);
            throw Object.assign(new Error(`no ${step.attempt}`), { code: "DOWN" });
          },
          { retry: { attempts: 4, backoff: { kind: "linear", base: "10s", max: "25s" } } },
        ),
    });
    const result = await test(failing, { input: null });
    assert.deepEqual(attempts, [1, 2, 3, 4]);
    assert.equal(result.slept, 55_000);
    assert.equal(result.status, "failed");
    assert.deepEqual(result.error, { code: "DOWN", message: "no 4", step: "call", attempts: 4 });
  });

  it("does not retry a NonRetriableError, and lets the function catch it", async () => {
    const caught = workflow({
      name: "caught",
      run: async (ctx) => {
        try {
          await ctx.step.run("pay", () => {
            throw new NonRetriableError("card declined", { code: "DECLINED" });
          });
        } catch (error) {
          return `${(error as { code: string }).code} after ${(error as { attempts: number }).attempts}`;
        }
        return "paid";
      },
    });
    assert.equal((await test(caught, { input: null })).output, "DECLINED after 1");
  });

  it("runs called workflows in the same time, or mocks them", async () => {
    const child = workflow({
      name: "child",
      run: async (ctx, input: { n: number }) => {
        await ctx.step.sleep("nap", "1h");
        return { doubled: await ctx.step.run("double", () => input.n * 2) };
      },
    });
    const parent = workflow({
      name: "parent",
      run: async (ctx) => {
        const [one, two] = await Promise.all([ctx.step.call("one", child, { n: 1 }), ctx.step.call("two", child, { n: 2 })]);
        return one.doubled + two.doubled;
      },
    });
    const real = await test(parent, { input: null, workflows: [child], steps: { "two/double": 100 } });
    assert.equal(real.output, 102);
    assert.equal(real.slept, 3_600_000);
    assert.deepEqual(real.unused, []);
    const mocked = await test(parent, { input: null, steps: { one: { doubled: 5 }, two: () => ({ doubled: 6 }) } });
    assert.equal(mocked.output, 11);
    const failing = await test(parent, { input: null, workflows: [child], steps: { "one/double": () => Promise.reject(new NonRetriableError("no", { code: "NO" })) } });
    assert.deepEqual(failing.error, { code: "NO", message: "child run of child failed: no", step: "one", attempts: 1 });
    const missing = await test(parent, { input: null });
    assert.equal(missing.error?.code, "WORKFLOW_NOT_FOUND");
  });

  it("ends a call that takes too long, and waits for one that does not end", async () => {
    const slow = workflow({ name: "slow", run: (ctx) => ctx.step.sleep("nap", "2h") });
    const open = workflow({ name: "open", run: (ctx) => ctx.step.waitForEvent("never") });
    for (const child of [slow, open]) {
      const parent = workflow({ name: "parent", run: async (ctx) => void (await ctx.step.call("child", child, null, { timeout: "1h" })) });
      const result = await test(parent, { input: null, workflows: [child] });
      assert.deepEqual([result.status, result.error?.code, result.slept], ["failed", "STEP_TIMEOUT", 3_600_000]);
      assert.equal(result.steps[0]?.output, null);
      const patient = workflow({ name: "patient", run: async (ctx) => void (await ctx.step.call("child", child, null, { timeout: "2h" })) });
      assert.equal((await test(patient, { input: null, workflows: [child] })).status, child === slow ? "completed" : "failed");
    }
    const parent = workflow({ name: "parent", run: async (ctx) => void (await ctx.step.call("child", open, null)) });
    assert.equal((await test(parent, { input: null, workflows: [open] })).status, "waiting");
  });

  it("names crashes that did not happen", async () => {
    const result = await test(onboardUser, {
      input: { email: "a@b.c" },
      crashAfter: ["create-user", "creat-user"],
      crashDuring: ["send-welcome", "welcome-delay"],
    });
    assert.deepEqual(result.unused, ["creat-user", "welcome-delay"]);
  });

  it("aborts the steps that still run when the function ends", async () => {
    let signal: AbortSignal | undefined;
    const early = workflow({
      name: "early",
      run: (ctx) => {
        void ctx.step.run("slow", (step) => {
          signal = step.signal;
          return new Promise(() => {});
        });
      },
    });
    assert.equal((await test(early, { input: null, allowUnawaited: true })).status, "completed");
    assert.equal(signal?.reason.message, "the run has ended");
  });

  it("says that it waits for what does not come, and can be cancelled", async () => {
    let aborted = false;
    const waits = workflow({
      name: "waits",
      run: async (ctx) => {
        ctx.signal.addEventListener("abort", () => {
          aborted = true;
        });
        return await ctx.step.waitForEvent("never");
      },
    });
    assert.equal((await test(waits, { input: null })).status, "waiting");
    const cancelled = await test(waits, { input: null, cancelAt: "3d" });
    assert.equal(cancelled.status, "cancelled");
    assert.equal(cancelled.slept, 3 * DAY);
    assert.ok(aborted);
  });

  it("keeps the winner of a race through replays", async () => {
    const race = workflow({
      name: "race",
      run: async (ctx) => {
        const slow = ctx.step.sleep("slow", "2s").then(() => "slow");
        const fast = ctx.step.sleep("fast", "1s").then(() => "fast");
        const first = await Promise.race([slow, fast]);
        await ctx.step.sleep("after", "10s");
        return [first, await ctx.step.run(`won-${first}`, () => first)];
      },
    });
    for (const crashAfter of [[], ["after"], ["fast", "slow", "after", "won-fast"]]) {
      assert.deepEqual((await test(race, { input: null, crashAfter })).output, ["fast", "fast"]);
    }
  });

  it("gives functions what the journal keeps, live as in a replay", async () => {
    const dates = workflow({
      name: "dates",
      run: async (ctx) => {
        const made = await ctx.step.run("make", () => ({ at: new Date(0), none: undefined, list: [1] }));
        made.list.push(2);
        await ctx.step.run("other", () => {});
        return [typeof made.at, made.list.length, Object.keys(made)];
      },
    });
    const live = await test(dates, { input: null });
    assert.deepEqual(live.output, ["string", 2, ["at", "list"]]);
    assert.deepEqual((await test(dates, { input: null, crashAfter: "other" })).output, live.output);
  });

  it("reports that function and journal disagree", async () => {
    let turn = 0;
    const fickle = workflow({
      name: "fickle",
      run: async (ctx) => {
        turn += 1;
        await ctx.step.run(turn === 1 ? "a" : "b", () => 1);
        await ctx.step.run("c", () => 1);
      },
    });
    const result = await test(fickle, { input: null, crashAfter: "a" });
    assert.equal(result.status, "diverged");
    assert.equal(result.error?.code, "NONDETERMINISTIC");
    assert.match(result.error?.message ?? "", /"b" \(run\).*"a" \(run, seq \d+\)/);
  });

  it("takes no function that is slow between steps for one that disagrees", async () => {
    const parse = (isSlow: boolean) => new Promise((resolve) => setTimeout(resolve, isSlow ? 1_500 : 0));
    const files = workflow({
      name: "files",
      run: async (ctx) => {
        const both = [0, 1].map(async (i) => {
          await ctx.step.run(`fetch-${i}`, () => (ctx.attempt === 1 && i === 1 ? new Promise(() => {}) : i));
          await parse(ctx.attempt === 2 && i === 0);
          return await ctx.step.run(`save-${i}`, () => i);
        });
        return await Promise.all(both);
      },
    });
    const result = await test(files, { input: null, crashAfter: "save-0" });
    assert.deepEqual([result.status, result.turns, result.output], ["completed", 2, [0, 1]]);
  });

  it("refuses options that it does not know", () => {
    assert.throws(() => test(onboardUser, { input: { email: "" }, signal: [] } as never), /no option "signal"/);
  });
});

describe("contains", () => {
  it("is what PostgreSQL's @> is", () => {
    assert.ok(contains({ a: { b: [1, 2] }, c: 1 }, { a: { b: [2] } }));
    assert.ok(!contains({ a: 1 }, { a: { b: 1 } }));
    assert.ok(!contains({ a: 1 }, { b: 1 }));
    assert.ok(contains({}, {}));
    assert.ok(!contains(null, {}));
  });
});
