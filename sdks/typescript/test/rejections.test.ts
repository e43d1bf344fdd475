// Rejections without a handler, each in a process of its own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";

/** Runs a module in which a step has failed. Returns its exit code and its output. */
async function play(text: string, ...flags: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const load = (file: string) => `await import(${JSON.stringify(new URL(`../src/${file}`, import.meta.url).href)})`;
  const module = `
    const { workflow, NonRetriableError } = ${load("runtime.js")};
    const { test } = ${load("testing.js")};
    const declined = () => { throw new NonRetriableError("declined"); };
    const slow = () => new Promise((resolve) => setTimeout(resolve, 20));
    const play = (run) => test(workflow({ name: "w", run }), { input: null, allowUnawaited: true });
    const begun = await play(async (ctx) => {
      const a = (async () => (await ctx.step.run("charge", declined)).id)();
      await ctx.step.run("pack", slow);
      return a.catch((error) => error.message);
    });
    ${text}`;
  const child = spawn(process.execPath, [...flags, "--input-type=module", "-e", module], { stdio: ["ignore", "pipe", "pipe"] });
  const said = { out: "", err: "" };
  child.stdout.on("data", (chunk) => (said.out += chunk));
  child.stderr.on("data", (chunk) => (said.err += chunk));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, ...said };
}

test("an error of a step that is not awaited yet does not end the process, and reaches no listener", async () => {
  const { code, out, err } = await play(`
    process.on("unhandledRejection", () => console.log("reached"));
    process.on("rejectionHandled", () => console.log("reached"));
    console.log(begun.output);
    const again = await play(async (ctx) => {
      const a = (async () => (await ctx.step.run("charge", declined)).id)();
      await ctx.step.run("pack", slow);
      return a.catch((error) => error.step);
    });
    console.log(again.output);`);
  assert.deepEqual({ code, out, err }, { code: 0, out: "declined\ncharge\n", err: "" });
});

test("an error of a step that is never awaited is in the log of the run", async () => {
  const { code, out } = await play(`
    const forgotten = await play(async (ctx) => {
      void (async () => await ctx.step.run("charge", declined))();
      await ctx.step.run("pack", slow);
    });
    console.log(forgotten.status, forgotten.unawaited.join(), forgotten.logs.join());`);
  assert.deepEqual({ code, out }, { code: 0, out: 'completed charge warn a promise was rejected before the function awaits it: declined {"step":"charge"}\n' });
});

test("a program that restores process.emit does not disable the interception", async () => {
  const { code, out } = await play(`
    process.emit = Object.getPrototypeOf(process).emit;
    const again = await play(async (ctx) => {
      const a = (async () => (await ctx.step.run("charge", declined)).id)();
      await ctx.step.run("pack", slow);
      return a.catch((error) => error.step);
    });
    console.log(again.output);`);
  assert.deepEqual({ code, out }, { code: 0, out: "charge\n" });
});

test("a step that the end of a run aborts does not end the process, though it is not awaited", async () => {
  const { code, out } = await play(`
    const { setTimeout: pause } = await import("node:timers/promises");
    const cancelled = await play(async (ctx) => {
      void ctx.step.run("two", async (step) => {
        const never = pause(10_000, null, { signal: step.signal });
        await pause(10_000, null, { signal: step.signal });
        await never;
      });
      return "done";
    });
    await slow();
    console.log(cancelled.output);`);
  assert.deepEqual({ code, out }, { code: 0, out: "done\n" });
});

test("any other rejection without a handler ends the process as Node.js does", async () => {
  const error = await play(`void Promise.reject(new Error("another")); await slow(); console.log("alive");`);
  assert.deepEqual([error.code, error.out], [1, ""]);
  assert.match(error.err, /^\S+:\d+\n.*\n +\^\n\nError: another\n/s);
  const value = await play(`void Promise.reject("a text"); await slow(); console.log("alive");`);
  assert.deepEqual([value.code, value.out], [1, ""]);
  assert.match(value.err, /ERR_UNHANDLED_REJECTION/);
  const caught = await play(`
    process.on("uncaughtException", (error, origin) => console.log(error.message, origin));
    void Promise.reject(new Error("another")); await slow();`);
  assert.deepEqual([caught.code, caught.out], [0, "another unhandledRejection\n"]);
  const warned = await play(`void Promise.reject(new Error("another")); await slow(); console.log("alive");`, "--unhandled-rejections=warn-with-error-code");
  assert.deepEqual([warned.code, warned.out], [1, "alive\n"]);
  assert.match(warned.err, /UnhandledPromiseRejectionWarning: Error: another/);
});
