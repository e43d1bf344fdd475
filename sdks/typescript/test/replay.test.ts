import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { describe, it } from "node:test";
import { retryPolicy } from "../src/retry.js";
import type { Context } from "../src/types.js";
import type { StepRecord, Report } from "../src/wire.js";
import { begin, done, type RecordingHost, settle, until } from "./recording-host.js";

describe("replay", () => {
  it("gives known results without running anything", async () => {
    const { host } = begin([done("a", 2, { x: 1 }), done("b", 3)], async (ctx) => {
      const a = await ctx.step.run("a", () => assert.fail("it ran"));
      const b = await ctx.step.run("b", () => assert.fail("it ran"));
      return [a, b];
    });
    await settle();
    assert.deepEqual(host.reports, [{ kind: "returned", json: '[{"x":1},"b"]' }]);
  });

  it("runs a new step, and continues when it is acknowledged", async () => {
    const { host, replay } = begin([done("a", 2)], async (ctx) => {
      await ctx.step.run("a", () => assert.fail("it ran"));
      return await ctx.step.run("b", () => "new");
    });
    await settle();
    assert.deepEqual(host.sent, ["completed b"]);
    replay.acknowledge(host.reports[0] as Report, 3);
    await settle();
    assert.deepEqual(host.sent, ["completed b", "returned"]);
    assert.equal(replay.seq, 3);
  });

  it("delivers in the order of the journal, however steps were asked for", async () => {
    const order: string[] = [];
    begin([done("c", 2), done("a", 3), done("b", 4)], async (ctx) => {
      await Promise.all(["a", "b", "c"].map((name) => ctx.step.run(name, () => 0).then(() => order.push(name))));
    });
    await settle();
    assert.deepEqual(order, ["c", "a", "b"]);
  });

  it("lets the function finish what a result begins before it gives the next", async () => {
    const order: string[] = [];
    const body = async (ctx: Context) => {
      const long = ctx.step.run("long", () => 1).then(async () => {
        for (let i = 0; i < 20; i++) await null;
        order.push("long");
      });
      const short = ctx.step.run("short", () => 2).then(() => void order.push("short"));
      await Promise.all([long, short]);
    };
    // Live: both acknowledged in one message.
    const live = begin([], body);
    await settle();
    for (const [i, report] of live.host.reports.entries()) live.replay.acknowledge(report, 2 + i);
    await settle();
    // Again, from the journal.
    begin([done("long", 2), done("short", 3)], body);
    await settle();
    assert.deepEqual(order, ["long", "short", "long", "short"]);
  });

  it("has the same winner of a race live and in a replay", async () => {
    const body = async (ctx: Context) => Promise.race([ctx.step.run("a", () => "a"), ctx.step.run("b", () => "b")]);
    const live = begin([], body);
    await settle();
    // They came to the journal the other way round.
    live.replay.acknowledge(live.host.reports[1] as Report, 2);
    live.replay.acknowledge(live.host.reports[0] as Report, 3);
    await settle();
    assert.deepEqual(live.host.reports.at(-1), { kind: "returned", json: '"b"' });
    const again = begin([done("b", 2), done("a", 3)], body);
    await settle();
    assert.deepEqual(again.host.reports, [{ kind: "returned", json: '"b"' }]);
  });

  it("takes acks and wakes that came in any order by their seq", async () => {
    const order: string[] = [];
    const { host, replay } = begin([], async (ctx) => {
      const nap = ctx.step.sleep("nap", 5).then(() => order.push("nap"));
      const a = ctx.step.run("a", () => 1).then(() => order.push("a"));
      await Promise.all([nap, a]);
    });
    await settle();
    replay.acknowledge(host.reports[0] as Report, 2);
    replay.acknowledge(host.reports[1] as Report, 4);
    replay.wake({ step: "nap", kind: "sleep", seq: 3, status: "slept" });
    await settle();
    assert.deepEqual(order, ["nap", "a"]);
  });

  it("holds back a new step until the journal's steps were asked for", async () => {
    const { host } = begin([done("a1", 2), done("a2", 3)], async (ctx) => {
      const a = async () => {
        await ctx.step.run("a1", () => assert.fail("it ran"));
        await ctx.step.run("a2", () => assert.fail("it ran"));
      };
      await Promise.all([ctx.step.run("b", () => "b"), a()]);
    });
    assert.deepEqual(host.sent, []);
    await settle();
    assert.deepEqual(host.sent, ["completed b"]);
    assert.equal(host.stuckCount, 0);
  });

  it("waits for slow code outside steps before a result that came later", async () => {
    const order: string[] = [];
    const { host, replay } = begin([done("after", 2), done("b", 3)], async (ctx) => {
      const slow = (async () => {
        await new Promise((resolve) => setTimeout(resolve, 10));
        await ctx.step.run("after", () => assert.fail("it ran"));
        order.push("after");
      })();
      const b = ctx.step.run("b", () => assert.fail("it ran")).then(() => order.push("b"));
      await Promise.all([slow, b]);
    });
    await settle();
    assert.equal(host.stuckCount, 1);
    await until(() => order.length === 2);
    assert.deepEqual(order, ["after", "b"]);
    replay.checkStuck();
    assert.deepEqual(host.sent, ["returned"]);
  });

  it("continues without it after a second", async () => {
    const { host, replay } = begin([done("never", 2), done("b", 3)], async (ctx) => {
      await ctx.step.run("b", () => assert.fail("it ran"));
      ctx.log.info("b has its result");
      await new Promise(() => {});
    });
    await settle();
    assert.equal(host.stuckCount, 1);
    replay.checkStuck();
    await settle();
    assert.deepEqual(host.sent, []);
    assert.equal(replay.waiting, 0);
  });

  it("has patience with slow code outside steps while a new step is held back", async () => {
    const parsed: (() => void)[] = [];
    const { host, replay } = begin([done("fetch-0", 2), done("save-0", 3)], (ctx) =>
      Promise.all(
        [0, 1].map(async (i) => {
          await ctx.step.run(`fetch-${i}`, () => `raw-${i}`);
          await new Promise<void>((resolve) => parsed.push(resolve));
          return await ctx.step.run(`save-${i}`, () => `doc-${i}`);
        }),
      ),
    );
    host.stuckChecksMax = 3;
    await settle();
    for (let i = 0; i < 2; i++) replay.checkStuck();
    await settle();
    assert.deepEqual([host.sent, host.stuckCount], [[], 3]);
    assert.equal(host.lines.length, 1, "one warning");
    assert.match(host.lines[0] ?? "", /^warn step "fetch-1" \(run\) was requested, but the journal has step "save-0" \(run, seq 3\); the run is paused if/);
    parsed[0]?.();
    await settle();
    replay.checkStuck();
    await settle();
    assert.deepEqual(host.sent, ["completed fetch-1"]);
  });
});

describe("divergence", () => {
  const message = (host: RecordingHost): string => {
    const report = host.reports.at(-1);
    assert.ok(report?.kind === "diverged", `it is ${report?.kind}`);
    assert.equal(report.error.code, "NONDETERMINISTIC");
    return report.error.message;
  };

  it("is a name that is used twice", async () => {
    const { host } = begin([], async (ctx) => {
      void ctx.step.run("a", () => new Promise(() => {}));
      void ctx.step.run("a", () => 2);
    });
    await settle();
    assert.match(message(host), /"a" is used twice/);
  });

  it("is a kind that differs", async () => {
    const { host } = begin([done("a", 2)], async (ctx) => ctx.step.sleep("a", 1));
    await settle();
    assert.match(message(host), /"a" is of kind "sleep" now, and of kind "run" in the journal \(seq 2\)/);
  });

  it("is a function that returns too early", async () => {
    const { host } = begin([done("a", 2), done("b", 3)], async (ctx) => ctx.step.run("a", () => 1));
    await settle();
    assert.match(message(host), /has returned, but the journal has step "b" \(run, seq 3\)/);
  });

  it("is a function that throws too early", async () => {
    const { host } = begin([done("a", 2)], async () => {
      throw new Error("oh");
    });
    await settle();
    assert.match(message(host), /has thrown "oh", but the journal has step "a"/);
  });

  it("is a new step in place of one of the journal, and it is not run", async () => {
    let ran = false;
    const { host, replay } = begin([done("a", 2), done("b", 3)], async (ctx) => {
      await ctx.step.run("a", () => 1);
      await ctx.step.run("c", () => {
        ran = true;
      });
    });
    await settle();
    assert.deepEqual(host.sent, []);
    replay.checkStuck();
    assert.match(message(host), /step "c" \(run\) was requested, but the journal has step "b" \(run, seq 3\)/);
    assert.ok(!ran);
  });
});

describe("a first step that differs", () => {
  it("is a divergence after four checks, though later ones would wait for a lease", async () => {
    const { host, replay } = begin([done("reserve", 2), done("charge", 3)], async (ctx) => {
      await ctx.step.run("greet", () => assert.fail("it ran"));
      await ctx.step.run("charge", () => 1);
    });
    host.stuckChecksMax = 25;
    await settle();
    assert.deepEqual([host.sent, host.stuckCount], [[], 1]);
    for (let check = 1; check < 4; check++) replay.checkStuck();
    assert.equal(host.reports.length, 0);
    replay.checkStuck();
    const report = host.reports[0];
    assert.ok(report?.kind === "diverged" && report.error.code === "NONDETERMINISTIC");
    assert.equal(report.error.message, 'step "greet" (run) was requested, but the journal has step "reserve" (run, seq 2)');
  });

  it("is none if the function asks for a step of the journal within the check", async () => {
    const { host, replay } = begin([done("slow", 2)], async (ctx) => {
      const slow = (async () => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return await ctx.step.run("slow", () => assert.fail("it ran"));
      })();
      await Promise.all([ctx.step.run("quick", () => 1), slow]);
    });
    await settle();
    assert.equal(host.stuckCount, 1);
    await new Promise((resolve) => setTimeout(resolve, 15));
    replay.checkStuck();
    await settle();
    assert.deepEqual(host.sent, ["completed quick"]);
  });
});

describe("a run", () => {
  it("waits for open sleeps without saying them again", async () => {
    const { host, replay } = begin([{ step: "nap", kind: "sleep", seq: 2, status: "open" }], async (ctx) => {
      await ctx.step.sleep("nap", "1h");
      return "rested";
    });
    await settle();
    assert.deepEqual(host.sent, []);
    assert.ok(replay.isBlocked(0));
    replay.wake({ step: "nap", kind: "sleep", seq: 3, status: "slept" });
    await settle();
    assert.deepEqual(host.reports, [{ kind: "returned", json: '"rested"' }]);
  });

  it("retries a step with the attempt of its record", async () => {
    const attempts: number[] = [];
    const { host, replay } = begin([{ step: "a", kind: "run", seq: 2, status: "retry", attempt: 3 }], async (ctx) => {
      await ctx.step.run("a", (step) => {
        attempts.push(step.attempt);
        throw new Error("no");
      });
    });
    await settle();
    replay.acknowledge(host.reports[0] as Report, 3);
    assert.ok(replay.isBlocked(1 - 1));
    replay.wake({ step: "a", kind: "run", seq: 5, status: "retry", attempt: 4 });
    await settle();
    assert.deepEqual(attempts, [3, 4]);
  });

  it("takes a retry from a turn that is sent again while its failure is unanswered", async () => {
    const attempts: number[] = [];
    const { host, replay } = begin([], async (ctx) => {
      await ctx.step.run("a", (step) => {
        attempts.push(step.attempt);
        if (step.attempt === 1) throw new Error("no");
      });
    });
    await settle();
    replay.merge({ ...replay.source, seq: 4, steps: [{ step: "a", kind: "run", seq: 4, status: "retry", attempt: 2 }] });
    await settle();
    // The answer to the first attempt comes late, and changes nothing.
    replay.acknowledge(host.reports[0] as Report, 0);
    assert.deepEqual(attempts, [1, 2]);
    replay.acknowledge(host.reports[1] as Report, 5);
    await settle();
    assert.equal(host.sent.at(-1), "returned");
  });

  it("gives a wait its payload, an empty object for none, and null for a timeout", async () => {
    const resolved = (step: string, seq: number, payload: unknown): StepRecord => ({ step, kind: "wait", seq, status: "resolved", payload });
    const { host } = begin([resolved("a", 2, { x: 1 }), resolved("b", 3, null), { step: "c", kind: "wait", seq: 4, status: "timedOut" }], async (ctx) => [
      await ctx.step.waitForEvent("a"),
      await ctx.step.waitForEvent("b"),
      await ctx.step.waitForEvent("c"),
    ]);
    await settle();
    assert.deepEqual(host.reports, [{ kind: "returned", json: '[{"x":1},{},null]' }]);
  });

  it("aborts its signal when it is cancelled, also if it was not read before", async () => {
    let signal: AbortSignal | undefined;
    let late: (() => AbortSignal) | undefined;
    const { host, replay } = begin([], async (ctx) => {
      late = () => ctx.signal;
      await ctx.step.run("a", async (step) => {
        signal = step.signal;
        await new Promise((_, reject) => step.signal.addEventListener("abort", () => reject(new Error("stopped"))));
      });
    });
    await settle();
    assert.equal(signal?.aborted, false);
    replay.abort("the run was cancelled");
    await settle();
    assert.equal(signal?.aborted, true);
    assert.equal(late?.().aborted, true);
    assert.deepEqual(host.sent, [], "the outcome of the step is not reported");
    const other = begin([], async (ctx) => {
      late = () => ctx.signal;
    });
    other.replay.abort("gone");
    assert.equal(late?.().reason.name, "AbortError");
  });

  it("has a signal that any number of steps may listen to", async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on("warning", note);
    begin([], (ctx) => Promise.all(Array.from({ length: 20 }, (_, i) => ctx.step.run(`s${i}`, (step) => step.signal.addEventListener("abort", () => {})))));
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off("warning", note);
    assert.deepEqual(warnings, []);
  });

  it("has a context that may be spread and taken apart", async () => {
    const { host, replay } = begin([], async (ctx) => {
      const { log, signal, attempt, run, trigger, step, ...rest } = { ...ctx };
      assert.deepEqual([signal, attempt, run.id, trigger, rest], [ctx.signal, 1, "r", null, {}]);
      log.info("taken");
      const { run: perform, sleep, sleepUntil, waitForEvent, call, publish } = { ...step };
      void Promise.all([sleep("b", 1), sleepUntil("c", 1), waitForEvent("d"), call("e", "w", 1), publish("f", { topic: "t", data: 1 })]);
      return await perform("a", () => 1);
    });
    await settle();
    replay.acknowledge(host.reports.find((report) => report.kind === "completed") as Report, 2);
    await settle();
    assert.deepEqual(host.sent, ["sleep b", "sleep c", "wait d", "call e", "publish f", "completed a", "returned"]);
    assert.deepEqual(host.lines, ["info taken"]);
  });

  it("still reports a running step after it was revoked, and starts no other", async () => {
    let end: (value: string) => void = () => {};
    const { host, replay } = begin([], async (ctx) => {
      const a = ctx.step.run("a", () => new Promise<string>((resolve) => (end = resolve)));
      await ctx.step.run("b", () => 1);
      await ctx.step.run("c", () => 1);
      await a;
    });
    await settle();
    replay.revoke();
    replay.acknowledge(host.reports[0] as Report, 2);
    end("done");
    await settle();
    assert.deepEqual(host.sent, ["completed b", "completed a"]);
  });

  it("gives every attempt of a step the AsyncLocalStorage of the function", async () => {
    const tenant = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const { replay } = begin([], (ctx) => tenant.run("a", () => ctx.step.run("charge", () => seen.push(tenant.getStore()))));
    replay.acknowledge({ kind: "failed", step: "charge", attempt: 1 } as Report, 2);
    tenant.run("another", () => replay.wake({ step: "charge", kind: "run", seq: 3, status: "retry", attempt: 2 }));
    assert.deepEqual(seen, ["a", "a"]);
  });

  it("starts nothing while its host may not, and begins when it may", async () => {
    const { host, replay } = begin([done("a", 2)], async (ctx) => {
      await null;
      host.may = false;
      await ctx.step.run("a", () => 1);
      await ctx.step.run("b", () => 1);
    });
    await settle();
    assert.deepEqual(host.sent, []);
    host.may = true;
    replay.startHeldSteps();
    await settle();
    assert.deepEqual(host.sent, ["completed b"]);
  });

  it("refuses names and options that cannot be meant", async () => {
    for (const name of ["", "a b", "ä", "x".repeat(129), 5]) {
      const { host } = begin([], async (ctx) => ctx.step.run(name as string, () => 1));
      await settle();
      assert.ok(host.reports[0]?.kind === "threw" && /step's name/.test(host.reports[0].error.message), String(name));
    }
    const cases: [(ctx: Context) => unknown, RegExp][] = [
      [(ctx) => ctx.step.run("a", () => 1, { retry: { attempts: 0 } }), /retry.attempts/],
      [(ctx) => ctx.step.run("a", () => 1, { retries: 5 } as never), /step "a" has no option "retries"; the options are retry/],
      [(ctx) => ctx.step.run("a", () => 1, { timeout: "5m" } as never), /step "a" cannot have a timeout: use AbortSignal.timeout/],
      [(ctx) => ctx.step.run("a", () => 1, { retry: { maxAttempts: 5 } as never }), /retry has no option "maxAttempts"; the options are attempts, backoff/],
      [(ctx) => ctx.step.run("a", () => 1, { retry: { backoff: { factor: 2 } as never } }), /retry.backoff has no option "factor"/],
      [(ctx) => ctx.step.waitForEvent("a", { name: "b" } as never), /step "a" has no option "name"; the options are event, match, timeout/],
      [(ctx) => ctx.step.call("a", "b", 1, { retry: {} } as never), /step "a" has no option "retry"; the options are version, timeout/],
    ];
    for (const [body, message] of cases) {
      const { host } = begin([], async (ctx) => body(ctx));
      await settle();
      const report = host.reports[0];
      assert.ok(report?.kind === "threw");
      assert.match(report.error.message, message);
    }
  });

  it("refuses a match that JSON would make another", async () => {
    for (const wrong of [{ id: undefined }, { id: Number.NaN }, { order: { ids: [1, undefined] } }, { order: [{ id: Infinity }] }, { id: () => 1 }]) {
      const { host } = begin([], (ctx) => ctx.step.waitForEvent("paid", { match: wrong }));
      await settle();
      const report = host.reports[0];
      assert.ok(report?.kind === "threw", JSON.stringify(wrong));
      assert.match(report.error.message, /the match of step "paid" cannot be written as JSON: "(id|1)" is/);
    }
    const { host } = begin([], (ctx) => ctx.step.waitForEvent("paid", { match: { id: 1, at: new Date(0), none: null } }));
    await settle();
    assert.deepEqual(host.reports, [{ kind: "wait", step: "paid", match: '{"id":1,"at":"1970-01-01T00:00:00.000Z","none":null}' }]);
  });

  it("never waits longer at first than at most", () => {
    const delays = (backoff: object) => {
      const { baseMs, maxMs } = retryPolicy({ backoff }).backoff;
      return [baseMs, maxMs];
    };
    assert.deepEqual(delays({}), [1_000, 60_000]);
    assert.deepEqual(delays({ max: "500ms" }), [500, 500]);
    assert.deepEqual(delays({ base: "2m" }), [120_000, 120_000]);
    assert.throws(() => delays({ base: "2s", max: "1s" }), { name: "TypeError", message: /"2s" is more than "1s"/ });
  });

  it("fails a step without a retry that calls another inside", async () => {
    const nested: ((ctx: Context) => Promise<unknown>)[] = [
      (ctx) => ctx.step.run("inner", () => assert.fail("it ran")),
      (ctx) => ctx.step.sleep("inner", 1),
    ];
    for (const inner of nested) {
      const { host, replay } = begin([], async (ctx) => {
        await ctx.step.run("before", async () => null);
        await ctx.step.run("outer", async () => [await inner(ctx)]);
      });
      await settle();
      replay.acknowledge(host.reports[0] as Report, 2);
      await settle();
      assert.deepEqual(host.sent, ["completed before", "failed outer"]);
      const report = host.reports[1];
      assert.ok(report?.kind === "failed" && report.error.retryable === false && report.error.code === "NESTED_STEP");
      assert.match(report.error.message, /step "inner" is requested inside step "outer": steps do not nest/);
    }
  });

  it("may ask for a step as soon as another has begun", async () => {
    const { host } = begin([], async (ctx) => {
      void ctx.step.run("a", () => new Promise(() => {}));
      void ctx.step.run("b", () => {
        throw new Error("no");
      });
      void ctx.step.run("c", () => 1);
    });
    await settle();
    assert.deepEqual(host.sent, ["failed b", "completed c", "returned"]);
  });
});
