import assert from "node:assert/strict";
import { readFile } from "node:fs";
import { test } from "node:test";
import { NonRetriableError, serve, StepError, workflow } from "../src/runtime.js";
import { sum } from "./workflows.js";
import { withWorker } from "./with-worker.js";

withWorker("steps run one after the other and the run ends with what the function returns", () => [sum], async (server) => {
  const run = server.start("sum", { upTo: 4 });
  await server.ended(run);
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
  async (server) => {
    const run = server.start("wide");
    await server.ended(run);
    assert.equal(run.output, 124_750);
    assert.equal(server.batches[0], 500);
  },
);

withWorker(
  "a failing step is retried as the server decides, and fails with a StepError",
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
  async (server) => {
    const run = server.start("flaky");
    await server.ended(run);
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
  async (server) => {
    const run = server.start("patient");
    await server.until(() => run.waits.has("approve"), "it waits");
    assert.deepEqual(run.waits.get("approve")?.match, { a: 1 });
    server.signal(run, "approve", { by: "me" });
    await server.ended(run);
    assert.deepEqual(run.output, { yes: { by: "me" }, no: null });
    const kinds = server.reports.map((sent) => sent.kind);
    assert.deepEqual(kinds, ["sleep", "blocked", "wait", "blocked", "wait", "blocked", "returned"]);
    // Each travels with the sleep or wait that blocks.
    assert.deepEqual(server.batches, [2, 2, 2, 1]);
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
  "a report that was lost with the connection is sent again, and its step is not run again",
  () => [steps(3, (i) => calls.push(`s${i}`))],
  async (server) => {
    calls.length = 0;
    const lost = new Set(["s0", "s1"]);
    // s0 never reaches the journal; s1 does, but not its answer.
    server.onReport = (sent) => (sent.step !== undefined && lost.delete(sent.step) ? (sent.step === "s0" ? "lose" : "drop") : "take");
    const run = server.start("steps");
    await server.ended(run);
    assert.equal(run.output, 3);
    assert.deepEqual(calls, ["s0", "s1", "s2"]);
    assert.equal(server.hellos.length, 1, "the session went on");
    assert.equal(server.reports.filter((sent) => sent.step === "s1").length, 2);
  },
);

withWorker(
  "a worker whose session is gone opens another with its holds, and continues in memory",
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
  async (server) => {
    calls.length = 0;
    const run = server.start("holds");
    await server.until(() => run.waits.has("go"), "it waits");
    server.sessions.clear();
    server.cut();
    await server.until(() => server.hellos.length === 2, "there is another session");
    assert.deepEqual(server.hellos[1]?.holds, [{ run: run.id, turn: 1 }]);
    server.signal(run, "go", {});
    await server.ended(run);
    assert.deepEqual(calls, ["begin", "a", "b"]);
    assert.equal(run.turn, 1);
  },
);

withWorker(
  "a run that another worker has is forgotten after a lease",
  () => [
    workflow({
      name: "moved",
      run: async (ctx) => {
        ctx.signal.addEventListener("abort", () => calls.push("aborted"));
        await ctx.step.waitForEvent("go");
      },
    }),
  ],
  async (server, worker) => {
    calls.length = 0;
    const run = server.start("moved");
    await server.until(() => run.waits.has("go"), "it waits");
    run.turn = 2;
    server.sessions.clear();
    server.cut();
    await server.until(() => worker.running === 0, "it is forgotten");
    assert.deepEqual(calls, ["aborted"]);
  },
  { prepare: (server) => (server.leaseSeconds = 0.5) },
);

withWorker(
  "a new turn of a run starts the function again with the steps of the journal",
  () => [steps(3, (i) => calls.push(`s${i}`))],
  async (server) => {
    calls.length = 0;
    server.onReport = (sent) => (sent.step === "s1" && sent.turn === 1 ? "keep" : "take");
    const run = server.start("steps");
    await server.until(() => calls.includes("s1"), "the second step has run");
    server.giveAll();
    await server.ended(run);
    assert.deepEqual(calls, ["s0", "s1", "s1", "s2"]);
    assert.equal(run.turn, 2);
  },
);

withWorker(
  "a report that cannot be taken now is sent again after a second",
  () => [steps(1)],
  async (server) => {
    let times = 0;
    server.onReport = (sent) => (sent.step === "s0" && ++times === 1 ? "later" : "take");
    const run = server.start("steps");
    const began = Date.now();
    await server.ended(run);
    assert.ok(Date.now() - began >= 900);
    assert.equal(times, 2);
  },
);

withWorker(
  "a refused report fails the run with the reason, unless the run is lost",
  () => [steps(2), workflow({ name: "naps", run: (ctx) => ctx.step.sleep("nap", 1) })],
  async (server, worker) => {
    server.onReport = (sent) => (sent.kind === "sleep" ? { refuse: "VALIDATION_ERROR" } : "take");
    const refused = server.start("naps");
    await server.ended(refused);
    assert.equal(refused.status, "threw");
    assert.equal(refused.error?.code, "VALIDATION_ERROR");
    server.onReport = (sent) => (sent.kind === "sleep" ? { refuse: "NONDETERMINISTIC" } : "take");
    const contradicted = server.start("naps");
    await server.ended(contradicted);
    assert.equal(contradicted.status, "diverged");
    server.onReport = () => ({ refuse: "FENCED" });
    server.start("steps");
    await server.until(() => server.reports.some((sent) => sent.step === "s0"), "the first step is reported");
    await server.until(() => worker.running === 0, "the run is forgotten");
    assert.ok(!server.reports.some((sent) => sent.step === "s1"));
  },
);

withWorker(
  "a function's own error ends its run, also one that the server refuses at first",
  () => [
    workflow({
      name: "odd",
      run: () => {
        throw new StepError("", "X", "made by hand", 1);
      },
    }),
  ],
  async (server, worker) => {
    server.onReport = (sent) => (sent.step === undefined ? "take" : { refuse: "VALIDATION_ERROR" });
    const odd = server.start("odd");
    await server.ended(odd);
    assert.deepEqual([odd.status, odd.error?.code], ["threw", "X"]);
    for (const times of [1, 2]) {
      let refusals = 0;
      server.onReport = () => (++refusals <= times ? { refuse: "VALIDATION_ERROR" } : "take");
      const refused = server.start("odd");
      await server.until(() => refusals === 2, "it is said again");
      await server.until(() => worker.running === 0, "it has left");
      if (times === 1) await server.ended(refused);
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.deepEqual([refused.status, refusals], [times === 1 ? "threw" : "running", 2], "it is said once more, and no oftener");
      if (times === 1) assert.deepEqual(refused.error, { code: "VALIDATION_ERROR", message: "refused by the test" });
    }
  },
);

withWorker(
  "what cannot be taken fails its own run, and no other misses its news",
  () => [workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go") })],
  async (server) => {
    const [one, two] = [server.start("waits"), server.start("waits")];
    await server.until(() => one.waits.has("go") && two.waits.has("go"), "they wait");
    const unreadable = { run: one.id, turn: ++one.turn, workflow: "waits", version: 1, startedAt: "", seq: 9, steps: 5 as never };
    const wake = { step: "go", kind: "wait" as const, seq: ++two.seq, status: "resolved" as const, payload: "yes" };
    server.tell({ turns: [unreadable, null as never], wakes: [{ ...wake, run: two.id, turn: two.turn }] });
    await Promise.all([server.ended(one), server.ended(two)]);
    assert.deepEqual([one.status, two.output], ["threw", "yes"]);
  },
);

withWorker(
  "a version that is not here is declined, and one that is here runs",
  () => [
    workflow({ name: "two", version: 1, run: () => "old" }),
    workflow({ name: "two", version: 3, run: () => "new" }),
  ],
  async (server) => {
    const [one, two, three] = [1, 2, 3].map((version) => server.start("two", null, version));
    assert.ok(one && two && three);
    await Promise.all([one, two, three].map((run) => server.ended(run)));
    assert.deepEqual([one.output, three.output], ["old", "new"]);
    assert.equal(two.status, "declined");
    assert.equal(two.error?.message, "this worker serves workflow two in version 3, and the run has version 2");
  },
);

withWorker(
  "reports are gathered while an answer is out",
  () => [
    workflow({
      name: "many",
      run: async (ctx) => {
        await Promise.all(Array.from({ length: 64 }, (_, i) => ctx.step.run(`s${i}`, () => new Promise((resolve) => setTimeout(resolve, i % 4)))));
      },
    }),
  ],
  async (server) => {
    const runs = Array.from({ length: 4 }, () => server.start("many"));
    await Promise.all(runs.map((run) => server.ended(run)));
    assert.ok(server.batches.length < 60, `256 reports in ${server.batches.length} messages`);
  },
);

withWorker(
  "no message has more reports than the server takes",
  () => [
    workflow({
      name: "wide",
      run: async (ctx) => {
        await Promise.all(Array.from({ length: 100 }, (_, i) => ctx.step.sleep(`s${i}`, 1)));
      },
    }),
  ],
  async (server) => {
    await server.ended(server.start("wide"));
    assert.ok(Math.max(...server.batches) <= 16, String(server.batches));
  },
  { prepare: (server) => (server.maxReports = 16) },
);

withWorker(
  "an output that is larger than a message fails its step without a retry",
  () => [workflow({ name: "large", run: (ctx) => ctx.step.run("a", () => "ä".repeat(2_200_000)) })],
  async (server) => {
    const run = server.start("large");
    await server.ended(run);
    assert.equal(run.status, "threw");
    assert.equal(run.error?.code, "PAYLOAD_TOO_LARGE");
  },
);

withWorker(
  "an output that the journal cannot keep is a failure of its step, though it is acknowledged",
  () => [workflow({ name: "deep", run: (ctx) => ctx.step.run("a", () => "kept?").catch((error: StepError) => error.code) })],
  async (server) => {
    server.onReport = (sent) => (sent.step === "a" ? "keep" : "take");
    const run = server.start("deep");
    await server.until(() => server.reports.length === 1, "the step is reported");
    const error = { code: "PAYLOAD_TOO_DEEP", message: "too deep", attempts: 1 };
    const wake = { run: run.id, turn: 1, step: "a", kind: "run" as const, seq: 3, status: "failed" as const, error };
    server.tell({ acks: [[server.reports[0]?.n ?? 0, 3]], wakes: [wake] });
    await server.ended(run);
    assert.equal(run.output, "PAYLOAD_TOO_DEEP");
  },
);

withWorker(
  "a first step that differs pauses the run within seconds, with both sides in the message",
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
  async (server) => {
    const run = server.start("fickle");
    await server.until(() => run.waits.has("go"), "it waits");
    server.giveAll();
    // The lease is 30 s.
    await server.ended(run, 8_000);
    assert.equal(run.status, "diverged");
    assert.match(run.error?.message ?? "", /step "b" \(run\) was requested, but the journal has step "a" \(run, seq 3\)/);
  },
);

withWorker(
  "a step that differs after others pauses the run after a lease",
  () => {
    let turn = 0;
    return [
      workflow({
        name: "fickle",
        run: async (ctx) => {
          turn += 1;
          await ctx.step.run("a", () => 1);
          await ctx.step.run(turn === 1 ? "b" : "c", () => 1);
          await ctx.step.waitForEvent("go");
        },
      }),
    ];
  },
  async (server) => {
    const run = server.start("fickle");
    await server.until(() => run.waits.has("go"), "it waits");
    server.giveAll();
    await server.ended(run);
    assert.match(run.error?.message ?? "", /step "c" \(run\) was requested, but the journal has step "b" \(run, seq 4\)/);
  },
  { prepare: (server) => (server.leaseSeconds = 1) },
);

withWorker(
  "a process that is suspended for a while does not report a slow function as divergent",
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
  async (server) => {
    server.onReport = (sent) => (sent.step === "quick" && sent.turn === 1 ? "keep" : "take");
    const run = server.start("reads");
    await server.until(() => run.known.has("slow"), "the slow step is in the journal");
    server.giveAll();
    await server.ended(run);
    assert.deepEqual([run.status, run.output], ["completed", [1, 2]]);
  },
);

withWorker(
  "a message is not longer than the server takes, however many runs begin to wait",
  () => [
    workflow({ name: "waits", run: (ctx) => ctx.step.waitForEvent("go") }),
    workflow({ name: "large", run: async (ctx) => void (await ctx.step.run("a", () => "x".repeat(4_194_304 - 1_300))) }),
  ],
  async (server) => {
    server.onReport = (sent) => (sent.step === "a" && sent.turn === 1 ? "keep" : "take");
    const large = server.start("large");
    const waits = Array.from({ length: 30 }, () => server.start("waits"));
    await server.until(() => waits.every((run) => run.waits.has("go")), "they wait");
    const before = server.reports.length;
    server.giveAll();
    await server.ended(large);
    const isBlocked = (id: string) => server.reports.slice(before).some((sent) => sent.run === id && sent.kind === "blocked");
    await server.until(() => waits.every((run) => isBlocked(run.id)), "they say so");
    assert.ok(server.longest > 4_192_000 && server.longest <= 4_194_304, String(server.longest));
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
  async (server) => {
    lines.length = 0;
    const run = server.start("logs");
    await server.ended(run);
    assert.deepEqual(lines, [
      ["begun", { workflow: "logs", run: run.id, n: 1 }],
      ["within", { workflow: "logs", run: run.id, step: "a" }],
    ]);
  },
  { logger: { debug: note, info: note, warn: note, error: note } },
);

withWorker(
  "a failure that is not awaited yet is a warning, and does not end the worker",
  () => [
    workflow({
      name: "pays",
      run: async (ctx) => {
        const charged = (async () => await ctx.step.run("charge", () => Promise.reject(new NonRetriableError("declined"))))();
        const packed = await ctx.step.run("pack", () => new Promise((resolve) => setTimeout(() => resolve("packed"), 30)));
        return [packed, await charged.catch((error: StepError) => error.step)];
      },
    }),
  ],
  async (server) => {
    lines.length = 0;
    const run = server.start("pays");
    await server.ended(run);
    assert.deepEqual(run.output, ["packed", "charge"]);
    assert.deepEqual(lines.at(-1), ["a promise was rejected before the function awaits it: declined", { workflow: "pays", run: run.id, step: "charge" }]);
  },
  { logger: { debug: note, info: note, warn: note, error: note } },
);

test("what is wrong with a worker's options is said at once", () => {
  assert.throws(() => serve({ apiKey: "es_test", workflows: [] }), /at least one workflow/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum, sum] }), /sum is listed twice in version 1/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], concurrency: 0 }), /concurrency/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], concurrency: 10_001 }), /concurrency/);
  for (const graceMs of ["soon", -1, Number.POSITIVE_INFINITY]) assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], graceMs }), /graceMs is/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], url: "somewhere" }), /url/);
  assert.throws(() => serve({ apiKey: "", workflows: [sum] }), /EVERSTEP_API_KEY/);
  assert.throws(() => serve({ apiKey: "es_test", workflows: [sum], grace: 5 } as never), /a worker has no option "grace"; the options are workflows/);
  assert.throws(() => workflow({ name: "a", timeout: "5m", run: () => 1 } as never), /workflow a has no option "timeout"; the options are name/);
  assert.throws(() => workflow({ name: "No Spaces", run: () => 1 }), /workflow's name/);
  assert.throws(() => workflow({ name: "a", version: 0, run: () => 1 }), /version of a/);
  assert.throws(() => workflow({ name: "a", retention: "ever", run: () => 1 }), /retention of a/);
  for (const inputSchema of [[], null, "object"]) {
    assert.throws(() => workflow({ name: "a", inputSchema, run: () => 1 } as never), /inputSchema of a is a JSON Schema/);
  }
});

const inputSchema = { type: "object", required: ["amount"] };
const checked = workflow({ name: "checked", inputSchema, retention: "2d", run: () => 1 });
withWorker(
  "the schema of an input is part of the registration",
  () => [checked, sum],
  async (server) => {
    assert.equal(checked.inputSchema, inputSchema);
    assert.deepEqual(server.hellos[0]?.workflows, [
      { name: "checked", version: 1, retentionDays: 2, inputSchema },
      { name: "sum", version: 1 },
    ]);
  },
);
