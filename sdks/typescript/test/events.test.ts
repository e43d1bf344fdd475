// Published events in functions, in unit tests and in the protocol.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StepError, workflow } from "../src/runtime.js";
import { test } from "../src/testing.js";
import type { EventRef } from "../src/types.js";
import { encodeReport, type Report, type StepRecord } from "../src/wire.js";
import { begin, settle } from "./recording-host.js";
import { withWorker } from "./with-worker.js";

const paid: EventRef = { id: "e1", topic: "order.paid", source: "shop", at: "2026-05-01T12:00:00.000000Z" };
const HOUR = 3_600_000;

describe("a publish step", () => {
  it("is reported with its data as JSON, and settled by the server", async () => {
    const { host, replay } = begin([], (ctx) => ctx.step.publish("announce", { topic: "user.welcomed", data: { id: 7, at: new Date(0) }, id: "w-7", subject: "user 7" }));
    await settle();
    const [report] = host.reports as [Report];
    assert.deepEqual(JSON.parse(encodeReport(3, "r", 1, report)), {
      n: 3,
      run: "r",
      turn: 1,
      kind: "publish",
      step: "announce",
      topic: "user.welcomed",
      data: { id: 7, at: "1970-01-01T00:00:00.000Z" },
      id: "w-7",
      subject: "user 7",
    });
    // The message of the server has the result and the acknowledgement; results are processed first.
    replay.wake({ step: "announce", kind: "publish", seq: 4, status: "completed", output: { id: "e1", topic: "user.welcomed" } });
    replay.acknowledge(report, 3);
    await settle();
    assert.deepEqual(host.reports[1], { kind: "returned", json: '{"id":"e1","topic":"user.welcomed"}' });
    assert.equal(replay.seq, 4);
  });

  it("is not repeated in a replay", async () => {
    const record: StepRecord = { step: "announce", kind: "publish", seq: 3, status: "completed", output: { id: "e1", topic: "t" } };
    const { host } = begin([record], async (ctx) => (await ctx.step.publish("announce", { topic: "t", data: 1 })).id);
    await settle();
    assert.deepEqual(host.reports, [{ kind: "returned", json: '"e1"' }]);
  });

  it("fails with an error that the function can catch", async () => {
    const record: StepRecord = { step: "announce", kind: "publish", seq: 3, status: "failed", error: { code: "EVENT_LOOP", message: "too deep", attempts: 1 } };
    const { host } = begin([record], (ctx) => ctx.step.publish("announce", { topic: "t", data: 1 }).catch((error) => error instanceof StepError && error.code));
    await settle();
    assert.deepEqual(host.reports, [{ kind: "returned", json: '"EVENT_LOOP"' }]);
  });

  it("diverges from a step of another kind", async () => {
    const { host } = begin([{ step: "a", kind: "run", seq: 2, status: "completed", output: 1 }], (ctx) => ctx.step.publish("a", { topic: "t", data: 1 }));
    await settle();
    assert.deepEqual(host.sent, ["diverged"]);
  });

  it("rejects names that are no topics, and options that it does not have", async () => {
    const topics = ["", "a..b", "a b", "user.*", "@store/x", "everstep.run", "x".repeat(65), Array(17).fill("a").join("."), 5 as never];
    for (const topic of topics) {
      const { host } = begin([], (ctx) => ctx.step.publish("a", { topic, data: 1 }));
      await settle();
      const [report] = host.reports;
      assert.match(report?.kind === "threw" ? report.error.message : "", /^the topic of step "a" is /, String(topic));
    }
    const { host } = begin([], (ctx) => ctx.step.publish("a", { topic: "t", data: 1, key: "k" } as never));
    await settle();
    assert.match(JSON.stringify(host.reports[0]), /no option .*key/);
  });
});

describe("a wait for an event", () => {
  const resolved: StepRecord = { step: "paid", kind: "wait", seq: 3, status: "resolved", payload: { order: 7 }, event: paid };

  it("returns the data, or the data with the event", async () => {
    const plain = begin([resolved], (ctx) => ctx.step.waitForEvent("paid", { event: "order.paid" }));
    const full = begin([resolved], (ctx) => ctx.step.waitForEvent("paid", { event: "order.paid", withEvent: true }));
    await settle();
    assert.deepEqual(plain.host.reports, [{ kind: "returned", json: '{"order":7}' }]);
    assert.deepEqual(full.host.reports, [{ kind: "returned", json: JSON.stringify({ data: { order: 7 }, event: paid }) }]);
  });

  it("has no event if a signal has resolved it, and is null after the timeout", async () => {
    const { event: _, ...signalled } = resolved;
    const signal = begin([signalled], (ctx) => ctx.step.waitForEvent("paid", { withEvent: true }));
    const late = begin([{ step: "paid", kind: "wait", seq: 3, status: "timedOut" }], (ctx) => ctx.step.waitForEvent("paid", { withEvent: true }));
    await settle();
    assert.deepEqual(signal.host.reports, [{ kind: "returned", json: '{"data":{"order":7},"event":null}' }]);
    assert.deepEqual(late.host.reports, [{ kind: "returned", json: "null" }]);
  });

  it("keeps data that is null apart from a timeout", async () => {
    const empty: StepRecord = { ...resolved, payload: null };
    const plain = begin([empty], (ctx) => ctx.step.waitForEvent("paid", { event: "order.paid" }));
    const full = begin([empty], (ctx) => ctx.step.waitForEvent("paid", { event: "order.paid", withEvent: true }));
    await settle();
    assert.deepEqual(plain.host.reports, [{ kind: "returned", json: "{}" }]);
    assert.deepEqual(full.host.reports, [{ kind: "returned", json: JSON.stringify({ data: null, event: paid }) }]);
  });

  it("reports how far it looks back", async () => {
    const since = async (value: "start" | number | string | Date) => {
      const { host } = begin([], (ctx) => ctx.step.waitForEvent("paid", { event: "order.paid", since: value }));
      await settle();
      const [report] = host.reports;
      return report?.kind === "wait" ? report.since : report;
    };
    assert.equal(await since("start"), "start");
    assert.deepEqual(await since("15m"), { agoMs: 900_000 });
    assert.deepEqual(await since(500), { agoMs: 500 });
    assert.deepEqual(await since(new Date("2026-01-01T00:00:00Z")), { atMs: 1_767_225_600_000 });
    assert.match(JSON.stringify(await since("yesterday")), /\\"since\\" of step \\"paid\\" is \\"yesterday\\"/);
    const { host } = begin([], (ctx) => ctx.step.waitForEvent("paid", { since: "start" }));
    await settle();
    assert.match(JSON.stringify(host.reports[0]), /has \\"since\\" without \\"event\\"/);
  });
});

describe("triggers", () => {
  const run = () => null;

  it("are checked where the workflow is defined", () => {
    const triggers = [{ event: "user.*", match: { plan: "pro" } }, { event: "order.#" }];
    assert.equal(workflow({ name: "a", triggers, run }).triggers, triggers);
    const wrong = (given: unknown) => () => workflow({ name: "a", triggers: given as never, run });
    assert.throws(wrong({}), /the triggers of a are a list of at most 20/);
    assert.throws(wrong(Array(21).fill({ event: "t" })), /at most 20/);
    assert.throws(wrong([{ event: "user.sign*" }]), /the event of a trigger of a is "user.sign\*"/);
    assert.throws(wrong([{ topic: "t" }]), /a trigger of a has no option "topic"; the options are event, match/);
    assert.throws(wrong([{ event: "t", match: [] }]), /the match of a trigger of a is an object/);
  });

  it("are the cause of a run, for its function", async () => {
    const shows = workflow({ name: "shows", run: (ctx) => ({ ...ctx }.trigger) });
    assert.equal((await test(shows, { input: null })).output, null);
    const { output } = await test(shows, { input: null, trigger: { topic: "user.signup", id: "e1", source: "shop" } });
    assert.deepEqual(output, { type: "event", id: "e1", topic: "user.signup", subscription: null, source: "shop", depth: 0, scheduledFor: null });
  });
});

const signup = workflow({
  name: "signup",
  triggers: [{ event: "user.signup", match: { plan: "pro" } }],
  run: async (ctx, input: { user: number }) => {
    const { id } = await ctx.step.publish("announce", { topic: "user.welcomed", data: input });
    const paid = await ctx.step.waitForEvent<{ user: number }>("paid", { event: "order.paid", match: { user: input.user }, withEvent: true });
    return { id, trigger: ctx.trigger?.id ?? null, paid };
  },
});

withWorker(
  "a worker registers triggers, publishes, and receives events",
  () => [signup, workflow({ name: "plain", triggers: [], run: () => null })],
  async (server) => {
    assert.deepEqual(server.hellos[0]?.workflows, [
      { name: "signup", version: 1, triggers: [{ event: "user.signup", match: { plan: "pro" } }] },
      { name: "plain", version: 1 },
    ]);
    const run = server.start("signup", { user: 7 }, 1, { type: "event", id: "e0", topic: "user.signup", subscription: "s0", source: "api", depth: 0, scheduledFor: null });
    await server.until(() => run.waits.has("paid"), "the run waits");
    assert.deepEqual(run.published, [{ topic: "user.welcomed", data: { user: 7 } }]);
    // A step that is decided at once does not block the function.
    const [publish] = server.reports.filter((sent) => sent.kind === "publish");
    const blocked = server.reports.filter((sent) => sent.kind === "blocked");
    assert.ok(publish !== undefined && blocked.every((sent) => sent.n > publish.n && (sent.seq ?? 0) >= 3));
    run.waits.delete("paid");
    server.wake(run, { step: "paid", kind: "wait", seq: ++run.seq, status: "resolved", payload: { user: 7 }, event: paid });
    await server.ended(run);
    assert.deepEqual(run.output, { id: "event-1", trigger: "e0", paid: { data: { user: 7 }, event: paid } });
  },
  { prepare: (server) => (server.features = ["unawaited", "topics"]) },
);

withWorker(
  "a worker does not use topics at a server of an earlier release",
  () => [signup, workflow({ name: "back", run: (ctx) => ctx.step.waitForEvent("e", { event: "e", since: "start" }) })],
  async (server) => {
    const runs = [server.start("signup", { user: 7 }), server.start("back")];
    for (const run of runs) await server.ended(run);
    assert.deepEqual(
      runs.map((run) => [run.status, run.error]),
      [
        ["threw", { code: "NOT_SUPPORTED", message: "the server does not support publish steps: upgrade the server, then retry the run" }],
        ["threw", { code: "NOT_SUPPORTED", message: "the server does not support waits with since: upgrade the server, then retry the run" }],
      ],
    );
    assert.ok(server.reports.every((sent) => sent.kind !== "publish" && sent.since === undefined));
  },
);

withWorker(
  "a publish whose answer is lost is reported again, and published once",
  () => [signup],
  async (server) => {
    let isLost = false;
    server.onReport = (sent) => {
      if (sent.kind !== "publish" || isLost) return "take";
      isLost = true;
      return "drop";
    };
    const run = server.start("signup", { user: 7 });
    await server.until(() => run.waits.has("paid"), "the run waits");
    assert.equal(run.published.length, 1);
  },
  { prepare: (server) => (server.features = ["topics"]) },
);

describe("events in a test", () => {
  const order = workflow({
    name: "order",
    run: async (ctx, input: { id: number; since?: "start" | string }) => {
      await ctx.step.sleep("pack", "1h");
      const options = { event: "order.paid", match: { order: input.id }, timeout: "2h" };
      const paid = await ctx.step.waitForEvent<{ order: number; by?: string }>("paid", input.since === undefined ? options : { ...options, since: input.since });
      if (paid === null) return "expired";
      await ctx.step.publish("ship", { topic: "order.shipped", data: { order: input.id, by: paid.by ?? null }, subject: `order ${input.id}` });
      return "shipped";
    },
  });
  const event = (at: string | Date, data: object = { order: 7, by: "Ada" }) => ({ topic: "order.paid", data, at });

  it("resolve a wait at their time", async () => {
    const result = await test(order, { input: { id: 7 }, events: [event("90m", { order: 8 }), event("100m")], now: "2026-05-01T12:00:00Z" });
    assert.equal(result.output, "shipped");
    assert.equal(result.slept, 100 * 60_000);
    assert.deepEqual(result.unreceived, [event("90m", { order: 8 })]);
    const [shipped, ...others] = result.published;
    assert.deepEqual(others, []);
    const { id, ...rest } = shipped ?? assert.fail("nothing was published");
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    assert.deepEqual(rest, { step: "ship", eventId: "ship", topic: "order.shipped", data: { order: 7, by: "Ada" }, subject: "order 7", at: new Date("2026-05-01T13:40:00Z") });
    const step = result.steps.find(({ name }) => name === "ship");
    assert.deepEqual([step?.kind, step?.status, step?.output], ["publish", "completed", { id, topic: "order.shipped", created: true }]);
  });

  it("are published once under an id", async () => {
    const announce = workflow({
      name: "announce",
      run: async (ctx) => {
        const first = await ctx.step.publish("a", { topic: "order.paid", data: { order: 7, by: "Ada" }, id: "o-7" });
        const again = await ctx.step.publish("b", { topic: "order.paid", data: { by: "Ada", order: 7 }, id: "o-7" });
        assert.deepEqual(again, { ...first, created: false });
        return ctx.step.publish("c", { topic: "order.paid", data: { order: 8 }, id: "o-7" });
      },
    });
    const result = await test(announce, { input: null });
    assert.deepEqual([result.status, result.error?.code, result.published.length], ["failed", "IDEMPOTENCY_KEY_REUSED", 1]);
  });

  it("without a time are published when a wait is open for them", async () => {
    const result = await test(order, { input: { id: 7 }, events: [{ topic: "order.paid", data: { order: 7 } }] });
    assert.deepEqual([result.output, result.slept, result.unreceived], ["shipped", HOUR, []]);
  });

  it("from before a wait reach it if it looks back far enough", async () => {
    const now = "2026-05-01T12:00:00Z";
    const early = { events: [event("50m")], now };
    assert.equal((await test(order, { input: { id: 7 }, ...early })).output, "expired");
    assert.equal((await test(order, { input: { id: 7, since: "start" }, ...early })).output, "shipped");
    assert.equal((await test(order, { input: { id: 7, since: "15m" }, ...early })).output, "shipped");
    const missed = await test(order, { input: { id: 7, since: "5m" }, ...early });
    assert.deepEqual([missed.output, missed.unreceived], ["expired", [event("50m")]]);
    const before = { events: [event(new Date("2026-05-01T11:30:00Z"))], now };
    assert.equal((await test(order, { input: { id: 7, since: "start" }, ...before })).output, "expired");
    assert.equal((await test(order, { input: { id: 7, since: "91m" }, ...before })).output, "shipped");
  });

  it("are taken once by waits that look back", async () => {
    const takes = workflow({
      name: "takes",
      run: async (ctx) => {
        const wait = (name: string) => ctx.step.waitForEvent<number>(name, { event: "tick", since: "start", timeout: "1m" });
        await ctx.step.sleep("nap", "1h");
        return [await wait("a"), await wait("b"), await wait("c")];
      },
    });
    const tick = (at: string, data: number) => ({ topic: "tick", data, at });
    assert.deepEqual((await test(takes, { input: null, events: [tick("1m", 1), tick("2m", 2)] })).output, [1, 2, null]);
  });

  it("resolve every wait that they match, and a signal resolves the first", async () => {
    const both = workflow({
      name: "both",
      run: async (ctx) => {
        const wait = (name: string) => ctx.step.waitForEvent(name, { event: "go", timeout: "1h" });
        return Promise.all([wait("a"), wait("b")]);
      },
    });
    assert.deepEqual((await test(both, { input: null, events: [{ topic: "go", data: 1 }] })).output, [1, 1]);
    assert.deepEqual((await test(both, { input: null, signals: [{ event: "go", payload: 1 }] })).output, [1, null]);
  });

  it("do not reach a wait that has no event", async () => {
    const waits = workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go", { timeout: "1h" }) });
    const result = await test(waits, { input: null, events: [{ topic: "go", data: 1, at: "1m" }] });
    assert.deepEqual([result.output, result.unreceived.length], [null, 1]);
  });

  it("of a run reach its own waits, survive crashes, and are published once", async () => {
    const echo = workflow({
      name: "echo",
      run: async (ctx) => {
        const heard = ctx.step.waitForEvent<{ n: number }>("heard", { event: "echo.said", withEvent: true });
        const first = await ctx.step.publish("say", { topic: "echo.said", data: { n: 1 } });
        const again = await ctx.step.publish("again", { topic: "echo.said", data: { n: 1 }, id: "say" });
        return [first.created && !again.created && first.id === again.id, (await heard)?.event?.id === first.id, (await heard)?.event?.source === `run:${ctx.run.id}`];
      },
    });
    const result = await test(echo, { input: null, crashAfter: ["say", "heard"] });
    assert.deepEqual(result.output, [true, true, true]);
    assert.deepEqual([result.turns, result.published.length, result.unused], [3, 1, []]);
  });

  it("of called workflows have the name of the call", async () => {
    const parent = workflow({
      name: "parent",
      run: async (ctx) => {
        const [, shipped] = await Promise.all([ctx.step.call("order", order, { id: 7 }), ctx.step.waitForEvent("shipped", { event: "order.shipped", timeout: "1d" })]);
        return shipped;
      },
    });
    const lone = await test(parent, { input: null, workflows: [order] });
    assert.deepEqual([lone.output, lone.published], [null, []]);
    const announcer = workflow({ name: "announcer", run: (ctx) => ctx.step.publish("say", { topic: "order.shipped", data: { order: 9 } }) });
    const caller = workflow({
      name: "caller",
      run: async (ctx) => (await Promise.all([ctx.step.call("announcer", announcer, null), ctx.step.waitForEvent("shipped", { event: "order.shipped" })]))[1],
    });
    const result = await test(caller, { input: null, workflows: [announcer] });
    assert.deepEqual(result.output, { order: 9 });
    assert.deepEqual(result.published.map(({ step, topic }) => [step, topic]), [["announcer/say", "order.shipped"]]);
  });

  it("of a loop fail, and a mock replaces a publish step", async () => {
    const says = workflow({ name: "says", run: (ctx) => ctx.step.publish("say", { topic: "t", data: 1 }) });
    const deep = await test(says, { input: null, trigger: { depth: 32 } });
    assert.deepEqual([deep.status, deep.error?.code, deep.published], ["failed", "EVENT_LOOP", []]);
    const fine = await test(says, { input: null, trigger: { depth: 31 } });
    assert.equal(fine.status, "completed");
    const mocked = await test(says, { input: null, steps: { say: { id: "e9", topic: "t" } } });
    assert.deepEqual([mocked.output, mocked.published, mocked.unused], [{ id: "e9", topic: "t" }, [], []]);
    const refused = await test(says, { input: null, steps: { say: () => Promise.reject(Object.assign(new Error("no"), { code: "PAYLOAD_TOO_LARGE" })) } });
    assert.deepEqual([refused.status, refused.error?.code], ["failed", "PAYLOAD_TOO_LARGE"]);
  });
});
