import assert from "node:assert/strict";
import { readFile } from "node:fs";
import { test } from "node:test";
import { NonRetriableError, serve, StepError, workflow, type Worker, type WorkerOptions } from "../src/runtime.js";
import type { Served } from "../src/worker.js";
import { sum } from "./flows.js";
import { Peer } from "./peer.js";

/** Runs a test with a peer and a worker, over both carriers. */
function withWorker(
  name: string,
  workflows: () => Served[],
  body: (peer: Peer, worker: Worker) => Promise<void>,
  { prepare, ...options }: WorkerOptions & { prepare?: (peer: Peer) => void } = {},
): void {
  for (const transport of ["socket", "http"] as const) {
    test(`${name} (${transport})`, async () => {
      const peer = new Peer();
      await peer.listen();
      prepare?.(peer);
      const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, transport, graceMs: 300, ...options, workflows: workflows() });
      try {
        await worker.ready;
        await body(peer, worker);
      } finally {
        await worker.stop().catch(() => {});
        await peer.close();
      }
    });
  }
}

withWorker("steps run one after the other and the run ends with what the function returns", () => [sum], async (peer) => {
  const run = peer.start("sum", { upTo: 4 });
  await peer.ended(run);
  assert.deepEqual(run.output, { sum: 10 });
  assert.deepEqual([...run.known.keys()], ["add-1", "add-2", "add-3", "add-4"]);
});

withWorker(
  "parallel steps travel together",
  () => [
    workflow({
      name: "wide",
      run: async (ctx) => {
        const all = await Promise.all(Array.from({ length: 500 }, (_, i) => ctx.step.run(`s${i}`, async () => i)));
        return all.reduce((a, b) => a + b, 0);
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("wide");
    await peer.ended(run);
    assert.equal(run.output, 124_750);
    assert.equal(peer.batches[0], 500);
  },
);

withWorker(
  "a failing step is tried again as the server says, and fails for good with a StepError",
  () => [
    workflow({
      name: "flaky",
      run: async (ctx) => {
        const seen: number[] = [];
        const value = await ctx.step.run("second-time", (step) => {
          seen.push(step.attempt);
          if (step.attempt < 2) throw new Error("not yet");
          return step.attempt;
        });
        const error = await ctx.step
          .run("never", () => {
            throw new NonRetriableError("no", { code: "NO" });
          })
          .catch((error: unknown) => error);
        assert.ok(error instanceof StepError);
        return { value, seen, step: error.step, code: error.code, attempts: error.attempts };
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("flaky");
    await peer.ended(run);
    assert.deepEqual(run.output, { value: 2, seen: [1, 2], step: "never", code: "NO", attempts: 1 });
  },
);

withWorker(
  "a sleep, a wait and a timeout park the function and bring it back",
  () => [
    workflow({
      name: "patient",
      run: async (ctx) => {
        await ctx.step.sleep("nap", 5);
        const yes = await ctx.step.waitForEvent<{ by: string }>("approve", { match: { a: 1 }, timeout: "5s" });
        const no = await ctx.step.waitForEvent("never", { timeout: "10ms" });
        return { yes, no };
      },
    }),
  ],
  async (peer) => {
    const run = peer.start("patient");
    await peer.until(() => run.waits.has("approve"), "it waits");
    assert.deepEqual(run.waits.get("approve")?.match, { a: 1 });
    peer.signal(run, "approve", { by: "me" });
    await peer.ended(run);
    assert.deepEqual(run.output, { yes: { by: "me" }, no: null });
    const kinds = peer.results.map((sent) => sent.kind);
    assert.deepEqual(kinds, ["sleep", "blocked", "wait", "blocked", "wait", "blocked", "returned"]);
    // Each travels with the sleep or wait that blocks.
    assert.deepEqual(peer.batches, [2, 2, 2, 1]);
  },
);

const steps = (count: number, fn: (i: number) => unknown = (i) => i) =>
  workflow({
    name: "steps",
    run: async (ctx) => {
      for (let i = 0; i < count; i++) await ctx.step.run(`s${i}`, () => fn(i));
      return count;
    },
  });

const calls: string[] = [];
withWorker(
  "a result that was lost with the connection is sent again, and its step is not run again",
  () => [steps(3, (i) => calls.push(`s${i}`))],
  async (peer) => {
    calls.length = 0;
    const lost = new Set(["s0", "s1"]);
    // s0 never reaches the journal; s1 does, but not its answer.
    peer.onResult = (sent) => (sent.step !== undefined && lost.delete(sent.step) ? (sent.step === "s0" ? "lose" : "drop") : "take");
    const run = peer.start("steps");
    await peer.ended(run);
    assert.equal(run.output, 3);
    assert.deepEqual(calls, ["s0", "s1", "s2"]);
    assert.equal(peer.hellos.length, 1, "the session went on");
    assert.equal(peer.results.filter((sent) => sent.step === "s1").length, 2);
  },
);

withWorker(
  "a worker whose session is gone opens another, says what it holds, and goes on in memory",
  () => [
    workflow({
      name: "holds",
      run: async (ctx) => {
        calls.push("begin");
        await ctx.step.run("a", () => calls.push("a"));
        await ctx.step.waitForEvent("go");
        return await ctx.step.run("b", () => calls.push("b"));
      },
    }),
  ],
  async (peer) => {
    calls.length = 0;
    const run = peer.start("holds");
    await peer.until(() => run.waits.has("go"), "it waits");
    peer.sessions.clear();
    peer.cut();
    await peer.until(() => peer.hellos.length === 2, "there is another session");
    assert.deepEqual(peer.hellos[1]?.holds, [{ run: run.id, turn: 1 }]);
    peer.signal(run, "go", {});
    await peer.ended(run);
    assert.deepEqual(calls, ["begin", "a", "b"]);
    assert.equal(run.turn, 1);
  },
);

withWorker(
  "what another worker has taken over meanwhile is forgotten after a lease",
  () => [
    workflow({
      name: "moved",
      run: async (ctx) => {
        ctx.signal.addEventListener("abort", () => calls.push("aborted"));
        await ctx.step.waitForEvent("go");
      },
    }),
  ],
  async (peer, worker) => {
    calls.length = 0;
    const run = peer.start("moved");
    await peer.until(() => run.waits.has("go"), "it waits");
    run.turn = 2;
    peer.sessions.clear();
    peer.cut();
    await peer.until(() => worker.running === 0, "it is forgotten");
    assert.deepEqual(calls, ["aborted"]);
  },
  { prepare: (peer) => (peer.leaseSeconds = 0.5) },
);

withWorker(
  "a new turn of a run begins the function anew with what the journal knows",
  () => [steps(3, (i) => calls.push(`s${i}`))],
  async (peer) => {
    calls.length = 0;
    peer.onResult = (sent) => (sent.step === "s1" && sent.turn === 1 ? "keep" : "take");
    const run = peer.start("steps");
    await peer.until(() => calls.includes("s1"), "the second step has run");
    peer.giveAll();
    await peer.ended(run);
    assert.deepEqual(calls, ["s0", "s1", "s1", "s2"]);
    assert.equal(run.turn, 2);
  },
);

withWorker(
  "a result that cannot be taken now is sent again after a second",
  () => [steps(1)],
  async (peer) => {
    let times = 0;
    peer.onResult = (sent) => (sent.step === "s0" && ++times === 1 ? "later" : "take");
    const run = peer.start("steps");
    const began = Date.now();
    await peer.ended(run);
    assert.ok(Date.now() - began >= 900);
    assert.equal(times, 2);
  },
);

withWorker(
  "a refused result fails the run with the reason, unless the run is lost",
  () => [steps(2), workflow({ name: "naps", run: (ctx) => ctx.step.sleep("nap", 1) })],
  async (peer, worker) => {
    peer.onResult = (sent) => (sent.kind === "sleep" ? { refuse: "VALIDATION_ERROR" } : "take");
    const refused = peer.start("naps");
    await peer.ended(refused);
    assert.equal(refused.status, "threw");
    assert.equal(refused.error?.code, "VALIDATION_ERROR");
    peer.onResult = (sent) => (sent.kind === "sleep" ? { refuse: "NONDETERMINISTIC" } : "take");
    const contradicted = peer.start("naps");
    await peer.ended(contradicted);
    assert.equal(contradicted.status, "diverged");
    peer.onResult = () => ({ refuse: "FENCED" });
    peer.start("steps");
    await peer.until(() => peer.results.some((sent) => sent.step === "s0"), "the first step is reported");
    await peer.until(() => worker.running === 0, "the run is forgotten");
    assert.ok(!peer.results.some((sent) => sent.step === "s1"));
  },
);

withWorker(
  "what cannot be taken fails its own run, and no other misses its news",
  () => [workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go") })],
  async (peer) => {
    const [one, two] = [peer.start("waits"), peer.start("waits")];
    await peer.until(() => one.waits.has("go") && two.waits.has("go"), "they wait");
    const unreadable = { run: one.id, turn: ++one.turn, workflow: "waits", version: 1, startedAt: "", seq: 9, steps: 5 as never };
    const wake = { step: "go", kind: "wait" as const, seq: ++two.seq, status: "resolved" as const, payload: "yes" };
    peer.tell({ turns: [unreadable, null as never], wakes: [{ ...wake, run: two.id, turn: two.turn }] });
    await Promise.all([peer.ended(one), peer.ended(two)]);
    assert.deepEqual([one.status, two.output], ["threw", "yes"]);
  },
);

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
  async (peer, worker) => {
    const run = peer.start("long");
    await peer.until(() => worker.running === 1, "it runs");
    peer.tell({ cancels: [{ run: run.id, turn: run.turn }] });
    await peer.until(() => worker.running === 0, "it is forgotten");
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(peer.results, []);
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
  async (peer, worker) => {
    const run = peer.start("long");
    await peer.until(() => worker.running === 1, "it runs");
    peer.tell({ revoked: [{ run: run.id, turn: run.turn }] });
    await peer.until(() => peer.results.length === 1, "the step is reported");
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(peer.results.map((sent) => [sent.kind, sent.step]), [["completed", "a"]]);
    assert.equal(worker.running, 0);
  },
);

let isRefused = false;
/** A step that stands at a gate; what becomes of it is noted in `calls`. */
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
  "what a running step gives is kept when the function diverges meanwhile",
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
  async (peer, worker) => {
    for (const refusing of [false, true]) {
      reset();
      isRefused = refusing;
      peer.onResult = (sent) => (sent.kind === "sleep" ? { refuse: "NONDETERMINISTIC" } : "take");
      const run = peer.start("twice");
      await peer.until(() => run.status === "diverged", "it diverges");
      await peer.until(() => worker.running === 0, "the run has left");
      gates[0]?.("charged");
      await peer.until(() => run.known.get("charge")?.output === "charged", "the step is in the journal");
      await peer.until(() => calls.length === 2, "the signal is aborted when nothing runs any more");
      assert.deepEqual(calls, ["begin charge", "abort charge: the run is not here any more"]);
    }
  },
);

withWorker(
  "a run that begins anew aborts the steps that it has left here",
  () => [charging],
  async (peer, worker) => {
    reset();
    const run = peer.start("charging");
    await peer.until(() => calls.length === 1, "the step runs");
    peer.tell({ revoked: [{ run: run.id, turn: run.turn }] });
    await peer.until(() => worker.running === 0, "the run has left");
    assert.deepEqual(calls, ["begin charge 1"], "what runs may finish");
    peer.giveAll();
    await peer.until(() => calls.length === 3, "the step runs again");
    assert.deepEqual(calls, ["begin charge 1", "abort charge 1: the run has begun anew", "begin charge 2"]);
    gates[0]?.("late");
    gates[1]?.("charged");
    await peer.ended(run);
    assert.equal(run.output, "charged");
    assert.deepEqual(peer.results.filter((sent) => sent.step === "charge").map((sent) => sent.turn), [2]);
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
  async (peer, worker) => {
    for (const isCancelled of [true, false]) {
      reset();
      const run = peer.start("two");
      await peer.until(() => calls.length === 2, "the steps run");
      peer.tell({ revoked: [{ run: run.id, turn: run.turn }] });
      await peer.until(() => worker.running === 0, "the run has left");
      if (isCancelled) peer.tell({ cancels: [{ run: run.id, turn: run.turn }] });
      else run.turn += 1;
      if (!isCancelled) gates[0]?.("late");
      await peer.until(() => calls.length === 4, "the steps are aborted");
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
  async (peer, worker) => {
    reset();
    const run = peer.start("early");
    await peer.ended(run);
    await peer.until(() => calls.length === 2, "the step is aborted");
    assert.deepEqual(calls, ["begin slow", "abort slow: the run has ended"]);
    const stopped = worker.stop();
    setTimeout(() => gates[0]?.(""), 50);
    await stopped;
    assert.equal(calls.at(-1), "end slow");
    assert.deepEqual(peer.results.map((sent) => sent.kind), ["returned"]);
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
  async (peer) => {
    reset();
    const [parked, done] = [peer.start("watched", "parked"), peer.start("watched", "done")];
    await peer.until(() => parked.waits.has("go") && done.waits.has("go"), "they wait");
    peer.tell({ revoked: [{ run: parked.id, turn: 1 }] });
    peer.signal(done, "go", {});
    await peer.ended(done);
    await peer.until(() => calls.length > 0, "the signal is aborted");
    assert.deepEqual(calls, ["abort parked"]);
  },
);

withWorker(
  "a step that outlasts the grace period is aborted before the worker leaves",
  () => [charging, workflow({ name: "left", run: (ctx) => ctx.step.run("a", gated("left")) })],
  async (peer, worker) => {
    reset();
    peer.start("charging");
    const left = peer.start("left");
    await peer.until(() => calls.length === 2, "the steps run");
    peer.tell({ revoked: [{ run: left.id, turn: 1 }] });
    await peer.until(() => worker.running === 1, "one has left");
    const byes = peer.byes.push.bind(peer.byes);
    peer.byes.push = (bye: string) => {
      calls.push("bye");
      return byes(bye);
    };
    await worker.stop();
    assert.deepEqual(calls.slice(2), ["abort charge 1: the worker has stopped", "abort left: the worker has stopped", "bye"]);
    assert.deepEqual(peer.results, []);
  },
  { graceMs: "50ms" },
);

withWorker(
  "a version that is not here is declined, and one that is here runs",
  () => [
    workflow({ name: "two", version: 1, run: () => "old" }),
    workflow({ name: "two", version: 3, run: () => "new" }),
  ],
  async (peer) => {
    const [one, two, three] = [1, 2, 3].map((version) => peer.start("two", null, version));
    assert.ok(one && two && three);
    await Promise.all([one, two, three].map((run) => peer.ended(run)));
    assert.deepEqual([one.output, three.output], ["old", "new"]);
    assert.equal(two.status, "declined");
    assert.equal(two.error?.message, "workflow two is served here in version 3, and the run has version 2");
  },
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
  async (peer, worker) => {
    peer.start("long");
    await peer.until(() => worker.running === 1, "it runs");
    await worker.stop();
    assert.deepEqual(peer.results.map((sent) => [sent.kind, sent.step]), [["completed", "a"]]);
    assert.equal(peer.byes.length, 1);
    assert.ok(peer.capacities.includes(0));
  },
);

withWorker(
  "results are gathered while an answer is out",
  () => [
    workflow({
      name: "many",
      run: async (ctx) => {
        await Promise.all(Array.from({ length: 64 }, (_, i) => ctx.step.run(`s${i}`, () => new Promise((resolve) => setTimeout(resolve, i % 4)))));
      },
    }),
  ],
  async (peer) => {
    const runs = Array.from({ length: 4 }, () => peer.start("many"));
    await Promise.all(runs.map((run) => peer.ended(run)));
    assert.ok(peer.batches.length < 60, `256 results in ${peer.batches.length} messages`);
  },
);

withWorker(
  "no message has more results than the server takes",
  () => [
    workflow({
      name: "wide",
      run: async (ctx) => {
        await Promise.all(Array.from({ length: 100 }, (_, i) => ctx.step.sleep(`s${i}`, 1)));
      },
    }),
  ],
  async (peer) => {
    await peer.ended(peer.start("wide"));
    assert.ok(Math.max(...peer.batches) <= 16, String(peer.batches));
  },
  { prepare: (peer) => (peer.maxResults = 16) },
);

withWorker(
  "a result that is larger than a message fails its step for good",
  () => [workflow({ name: "large", run: (ctx) => ctx.step.run("a", () => "ä".repeat(2_200_000)) })],
  async (peer) => {
    const run = peer.start("large");
    await peer.ended(run);
    assert.equal(run.status, "threw");
    assert.equal(run.error?.code, "PAYLOAD_TOO_LARGE");
  },
);

withWorker(
  "a result that the journal cannot keep is a failure of its step, though it is acknowledged",
  () => [workflow({ name: "deep", run: (ctx) => ctx.step.run("a", () => "kept?").catch((error: StepError) => error.code) })],
  async (peer) => {
    peer.onResult = (sent) => (sent.step === "a" ? "keep" : "take");
    const run = peer.start("deep");
    await peer.until(() => peer.results.length === 1, "the step is reported");
    const error = { code: "PAYLOAD_TOO_DEEP", message: "too deep", attempts: 1 };
    const wake = { run: run.id, turn: 1, step: "a", kind: "run" as const, seq: 3, status: "failed" as const, error };
    peer.tell({ acks: [[peer.results[0]?.n ?? 0, 3]], wakes: [wake] });
    await peer.ended(run);
    assert.equal(run.output, "PAYLOAD_TOO_DEEP");
  },
);

withWorker(
  "divergence is reported with both sides",
  () => {
    let turn = 0;
    return [
      workflow({
        name: "fickle",
        run: async (ctx) => {
          turn += 1;
          await ctx.step.run(turn === 1 ? "a" : "b", () => 1);
          await ctx.step.waitForEvent("go");
        },
      }),
    ];
  },
  async (peer) => {
    const run = peer.start("fickle");
    await peer.until(() => run.waits.has("go"), "it waits");
    peer.giveAll();
    await peer.ended(run);
    assert.equal(run.status, "diverged");
    assert.match(run.error?.message ?? "", /step "b" \(run\) was asked for, where the journal has step "a" \(run, seq 3\)/);
  },
);

withWorker(
  "a process that stands still for a while takes no slow function for a divergent one",
  () => {
    let turn = 0;
    const read = (isStill: boolean) =>
      new Promise<void>((resolve) => {
        if (isStill) {
          setImmediate(() => {
            const end = Date.now() + 1_500;
            while (Date.now() < end);
          });
        }
        readFile(new URL(import.meta.url), () => resolve());
      });
    return [
      workflow({
        name: "reads",
        run: async (ctx) => {
          turn += 1;
          const isStill = turn === 2;
          const slow = async () => {
            await read(isStill);
            return ctx.step.run("slow", () => 1);
          };
          return await Promise.all([slow(), ctx.step.run("quick", () => 2)]);
        },
      }),
    ];
  },
  async (peer) => {
    peer.onResult = (sent) => (sent.step === "quick" && sent.turn === 1 ? "keep" : "take");
    const run = peer.start("reads");
    await peer.until(() => run.known.has("slow"), "the slow step is in the journal");
    peer.giveAll();
    await peer.ended(run);
    assert.deepEqual([run.status, run.output], ["completed", [1, 2]]);
  },
);

withWorker(
  "a message is not longer than the server takes, however many runs begin to wait",
  () => [
    workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go") }),
    workflow({ name: "large", run: async (ctx) => void (await ctx.step.run("a", () => "x".repeat(4_194_304 - 1_300))) }),
  ],
  async (peer) => {
    peer.onResult = (sent) => (sent.step === "a" && sent.turn === 1 ? "keep" : "take");
    const large = peer.start("large");
    const waits = Array.from({ length: 30 }, () => peer.start("waits"));
    await peer.until(() => waits.every((run) => run.waits.has("go")), "they wait");
    const before = peer.results.length;
    peer.giveAll();
    await peer.ended(large);
    const isBlocked = (id: string) => peer.results.slice(before).some((sent) => sent.run === id && sent.kind === "blocked");
    await peer.until(() => waits.every((run) => isBlocked(run.id)), "they say so");
    assert.ok(peer.longest > 4_192_000 && peer.longest <= 4_194_304, String(peer.longest));
  },
);

const lines: unknown[] = [];
const note = (...line: unknown[]) => void lines.push(line);
withWorker(
  "a logger is given the fields, with workflow, run and step among them",
  () => [
    workflow({
      name: "logs",
      run: async (ctx) => {
        ctx.log.info("begun", { n: 1 });
        await ctx.step.run("a", (step) => step.log.warn("within"));
      },
    }),
  ],
  async (peer) => {
    lines.length = 0;
    const run = peer.start("logs");
    await peer.ended(run);
    assert.deepEqual(lines, [
      ["begun", { workflow: "logs", run: run.id, n: 1 }],
      ["within", { workflow: "logs", run: run.id, step: "a" }],
    ]);
  },
  { logger: { debug: note, info: note, warn: note, error: note } },
);

test("what is wrong with a worker's options is said at once", () => {
  assert.throws(() => serve({ apiKey: "es_test", workflows: [] }), /at least one workflow/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum, sum] }), /sum is given twice in version 1/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], concurrency: 0 }), /concurrency/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], concurrency: 10_001 }), /concurrency/);
  for (const graceMs of ["soon", -1, Number.POSITIVE_INFINITY]) assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], graceMs }), /graceMs is/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], url: "somewhere" }), /url/);
  assert.throws(() => serve({ apiKey: "", workflows: [sum] }), /EVERSTEP_API_KEY/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], grace: 5 } as never), /a worker has no option "grace"; there is workflows/);
  assert.throws(() => workflow({ name: "a", timeout: "5m", run: () => 1 } as never), /workflow a has no option "timeout"; there is name/);
  assert.throws(() => workflow({ name: "No Spaces", run: () => 1 }), /workflow's name/);
  assert.throws(() => workflow({ name: "a", version: 0, run: () => 1 }), /version of a/);
  assert.throws(() => workflow({ name: "a", retention: "ever", run: () => 1 }), /retention of a/);
});
