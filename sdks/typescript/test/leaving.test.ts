// Runs that leave their worker while steps of them run: cancelled, paused, ended, started again by a new turn, or with the worker itself.

import assert from "node:assert/strict";
import { workflow } from "../src/runtime.js";
import { withWorker } from "./with-worker.js";

withWorker(
  "a cancelled run aborts the signal of its step and says nothing more",
  () => [
    workflow({
      name: "long",
      run: async (ctx) => {
        await ctx.step.run("wait", (step) => new Promise((_, reject) => step.signal.addEventListener("abort", () => reject(step.signal.reason))));
      },
    }),
  ],
  async (server, worker) => {
    const run = server.start("long");
    await server.until(() => worker.running === 1, "it runs");
    server.tell({ cancels: [{ run: run.id, turn: run.turn }] });
    await server.until(() => worker.running === 0, "it is forgotten");
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(server.reports, []);
  },
);

withWorker(
  "a revoked run starts nothing more, and its running step is still reported",
  () => [
    workflow({
      name: "long",
      run: async (ctx) => {
        await ctx.step.run("a", () => new Promise((resolve) => setTimeout(resolve, 30)));
        await ctx.step.run("b", () => 1);
      },
    }),
  ],
  async (server, worker) => {
    const run = server.start("long");
    await server.until(() => worker.running === 1, "it runs");
    server.tell({ revoked: [{ run: run.id, turn: run.turn }] });
    await server.until(() => server.reports.length === 1, "the step is reported");
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(server.reports.map((sent) => [sent.kind, sent.step]), [["completed", "a"]]);
    assert.equal(worker.running, 0);
  },
);

let isRefused = false;
const calls: string[] = [];
/** A step that ends when its gate is opened. It records its progress in `calls`. */
const gates: ((value: string) => void)[] = [];
const gated = (name: string) => (step: { signal: AbortSignal }) => {
  calls.push(`begin ${name}`);
  step.signal.addEventListener("abort", () => calls.push(`abort ${name}: ${step.signal.reason.message}`));
  return new Promise<string>((resolve) => gates.push(resolve));
};
const charging = workflow({
  name: "charging",
  run: async (ctx) => {
    const charged = await ctx.step.run("charge", gated(`charge ${ctx.attempt}`));
    await ctx.step.run("ship", () => calls.push("ship"));
    return charged;
  },
});
const reset = () => {
  calls.length = 0;
  gates.length = 0;
};

withWorker(
  "the output of a running step is kept when the function diverges",
  () => [
    workflow({
      name: "twice",
      run: async (ctx) => {
        const charge = ctx.step.run("charge", gated("charge"));
        // The server may say so too, of what is sent to it.
        await ctx.step.sleep(isRefused ? "nap" : "charge", 1);
        await charge;
      },
    }),
  ],
  async (server, worker) => {
    for (const refusing of [false, true]) {
      reset();
      isRefused = refusing;
      server.onReport = (sent) => (sent.kind === "sleep" ? { refuse: "NONDETERMINISTIC" } : "take");
      const run = server.start("twice");
      await server.until(() => run.status === "diverged", "it diverges");
      await server.until(() => worker.running === 0, "the run has left");
      gates[0]?.("charged");
      await server.until(() => run.known.get("charge")?.output === "charged", "the step is in the journal");
      await server.until(() => calls.length === 2, "the signal is aborted when no step runs");
      assert.deepEqual(calls, ["begin charge", "abort charge: the run is no longer at this worker"]);
    }
  },
);

withWorker(
  "a new turn of a run aborts the steps that an earlier turn has left here",
  () => [charging],
  async (server, worker) => {
    reset();
    const run = server.start("charging");
    await server.until(() => calls.length === 1, "the step runs");
    server.tell({ revoked: [{ run: run.id, turn: run.turn }] });
    await server.until(() => worker.running === 0, "the run has left");
    assert.deepEqual(calls, ["begin charge 1"], "what runs may finish");
    server.giveAll();
    await server.until(() => calls.length === 3, "the step runs again");
    assert.deepEqual(calls, ["begin charge 1", "abort charge 1: the run has a new turn", "begin charge 2"]);
    gates[0]?.("late");
    gates[1]?.("charged");
    await server.ended(run);
    assert.equal(run.output, "charged");
    assert.deepEqual(server.reports.filter((sent) => sent.step === "charge").map((sent) => sent.turn), [2]);
  },
);

withWorker(
  "a cancel reaches a step of a run that was paused, and so does a refusal",
  () => [
    workflow({
      name: "two",
      run: (ctx) => Promise.all([ctx.step.run("a", gated("a")), ctx.step.run("b", gated("b"))]),
    }),
  ],
  async (server, worker) => {
    for (const isCancelled of [true, false]) {
      reset();
      const run = server.start("two");
      await server.until(() => calls.length === 2, "the steps run");
      server.tell({ revoked: [{ run: run.id, turn: run.turn }] });
      await server.until(() => worker.running === 0, "the run has left");
      if (isCancelled) server.tell({ cancels: [{ run: run.id, turn: run.turn }] });
      else run.turn += 1;
      if (!isCancelled) gates[0]?.("late");
      await server.until(() => calls.length === 4, "the steps are aborted");
      const reason = isCancelled ? "the run has ended" : "an older turn";
      assert.deepEqual(calls.slice(2), [`abort a: ${reason}`, `abort b: ${reason}`]);
      for (const gate of gates) gate("late");
    }
  },
);

withWorker(
  "a function that ends aborts the steps that still run, and a stop waits for them",
  () => [
    workflow({
      name: "early",
      run: async (ctx) => {
        void ctx.step.run("slow", async (step) => {
          await gated("slow")(step);
          calls.push("end slow");
        });
        return "done";
      },
    }),
  ],
  async (server, worker) => {
    reset();
    const run = server.start("early");
    await server.ended(run);
    await server.until(() => calls.length === 2, "the step is aborted");
    assert.deepEqual(calls, ["begin slow", "abort slow: the run has ended"]);
    const stopped = worker.stop();
    setTimeout(() => gates[0]?.(""), 50);
    await stopped;
    assert.equal(calls.at(-1), "end slow");
    assert.deepEqual(server.reports.map((sent) => sent.kind), ["returned"]);
  },
);

withWorker(
  "the signal of a run that is parked is aborted, that of one that completes is not",
  () => [
    workflow({
      name: "watched",
      run: async (ctx, input: string) => {
        ctx.signal.addEventListener("abort", () => calls.push(`abort ${input}`));
        await ctx.step.waitForEvent("go");
      },
    }),
  ],
  async (server) => {
    reset();
    const [parked, done] = [server.start("watched", "parked"), server.start("watched", "done")];
    await server.until(() => parked.waits.has("go") && done.waits.has("go"), "they wait");
    server.tell({ revoked: [{ run: parked.id, turn: 1 }] });
    server.signal(done, "go", {});
    await server.ended(done);
    await server.until(() => calls.length > 0, "the signal is aborted");
    assert.deepEqual(calls, ["abort parked"]);
  },
);

withWorker(
  "a step that outlasts the grace period is aborted before the worker leaves",
  () => [charging, workflow({ name: "left", run: (ctx) => ctx.step.run("a", gated("left")) })],
  async (server, worker) => {
    reset();
    server.start("charging");
    const left = server.start("left");
    await server.until(() => calls.length === 2, "the steps run");
    server.tell({ revoked: [{ run: left.id, turn: 1 }] });
    await server.until(() => worker.running === 1, "one has left");
    const byes = server.byes.push.bind(server.byes);
    server.byes.push = (bye: string) => {
      calls.push("bye");
      return byes(bye);
    };
    await worker.stop();
    assert.deepEqual(calls.slice(2), ["abort charge 1: the worker has stopped", "abort left: the worker has stopped", "bye"]);
    assert.deepEqual(server.reports, []);
  },
  { graceMs: "50ms" },
);

withWorker(
  "a worker that stops lets its running step finish, starts no other, and says goodbye",
  () => [
    workflow({
      name: "long",
      run: async (ctx) => {
        await ctx.step.run("a", () => new Promise((resolve) => setTimeout(resolve, 50)));
        await ctx.step.run("b", () => 1);
      },
    }),
  ],
  async (server, worker) => {
    server.start("long");
    await server.until(() => worker.running === 1, "it runs");
    await worker.stop();
    assert.deepEqual(server.reports.map((sent) => [sent.kind, sent.step]), [["completed", "a"]]);
    assert.equal(server.byes.length, 1);
    assert.ok(server.capacities.includes(0));
  },
);

withWorker(
  "runs that come to their next step while the worker waits for a long one go on elsewhere, and so does a turn that comes too late",
  () => [charging],
  async (server, worker) => {
    reset();
    const [long, short] = [server.start("charging"), server.start("charging")];
    await server.until(() => gates.length === 2, "both run");
    const stopped = worker.stop();
    await server.until(() => server.capacities.includes(0), "it takes no more");
    const late = server.start("charging");
    gates[1]?.("paid");
    for (const run of [short, late]) await server.ended(run);
    assert.deepEqual([long.status, short.status, late.status], ["running", "declined", "declined"]);
    assert.equal(short.known.get("charge")?.output, "paid");
    assert.equal(short.error?.code, "WORKER_STOPPING");
    gates[0]?.("paid");
    await stopped;
    assert.equal(long.known.get("charge")?.output, "paid");
    assert.deepEqual(calls.filter((call) => call === "ship" || call.startsWith("begin")), ["begin charge 1", "begin charge 1"]);
  },
  { graceMs: 10_000 },
);
