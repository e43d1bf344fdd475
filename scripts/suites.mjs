// Builds all test programs, and runs two of them at a time: most of them wait for processes, leases and disks, so that
// one at a time leaves a core idle. `cargo test` runs one at a time.
//
// Usage: node scripts/suites.mjs [arguments of `cargo test`]
//
// The suites that take longest begin first. The modules of `engine` in POSTGRES run a second time, on PostgreSQL. The
// output of a suite is printed when it has ended, the longest suites and the failed ones at the end.

import { spawn } from "node:child_process";
import { dirname } from "node:path";

const LANES = Number(process.env.SUITES ?? 2);
const CARGO = process.env.CARGO ?? "cargo";
const LONGEST = ["simulation", "contract_postgres", "engine on PostgreSQL", "engine", "conformance", "faults", "machines", "suite", "cluster"];
const POSTGRES = "engine clock records shapes children forks lanes code names stranded formats".split(" ");

/** Runs a program to its end. Its output is returned, not printed, unless `stdio` says otherwise. */
function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    const chunks = [];
    child.stdout?.on("data", (chunk) => chunks.push(chunk));
    child.stderr?.on("data", (chunk) => chunks.push(chunk));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve({ ok: code === 0, signal, output: Buffer.concat(chunks).toString() }));
  });
}

const args = process.argv.slice(2);
const built = await run(CARGO, ["test", ...args, "--no-run", "--message-format=json-render-diagnostics"], {
  stdio: ["ignore", "pipe", "inherit"],
});
if (!built.ok) process.exit(1);

const programs = built.output
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .filter((message) => message.reason === "compiler-artifact" && message.profile.test && message.executable)
  .map(({ target, executable, manifest_path: manifest }) => {
    const name = target.kind.includes("test") ? target.name : `${target.name} (unit tests)`;
    return { name, executable, args: [], folder: dirname(manifest), env: {} };
  });
const again = programs.filter(({ name }) => name === "engine").map((suite) => {
  const args = POSTGRES.map((module) => `${module}::`);
  return { ...suite, name: "engine on PostgreSQL", args, env: { TEST_STORE: "postgres" } };
});
const rank = ({ name }) => (LONGEST.includes(name) ? LONGEST.indexOf(name) : LONGEST.length);
const queue = [...programs, ...again].sort((a, b) => rank(a) - rank(b));
console.log(`${queue.length} suites, ${LANES} at a time`);

const ended = [];
async function lane() {
  for (let suite = queue.shift(); suite; suite = queue.shift()) {
    const since = Date.now();
    const env = { ...process.env, CARGO_MANIFEST_DIR: suite.folder, ...suite.env };
    const { ok, signal, output } = await run(suite.executable, suite.args, { cwd: suite.folder, env });
    const seconds = (Date.now() - since) / 1000;
    console.log(`\n== ${suite.name}: ${ok ? "passed" : signal ? `ended by ${signal}` : "FAILED"} in ${seconds.toFixed(1)} s`);
    // The list of passed tests is of no interest.
    console.log(ok ? (output.match(/^test result.*$/m)?.[0] ?? "") : output);
    ended.push({ name: suite.name, ok, seconds });
  }
}
const began = Date.now();
await Promise.all(Array.from({ length: LANES }, lane));

const minutes = ((Date.now() - began) / 60_000).toFixed(1);
const longest = ended.toSorted((a, b) => b.seconds - a.seconds).slice(0, 10);
const shown = longest.map(({ name, seconds }) => `${name} ${seconds.toFixed(0)} s`).join(", ");
console.log(`\n${ended.length} suites in ${minutes} minutes; the longest: ${shown}`);

const failed = ended.filter(({ ok }) => !ok).map(({ name }) => name);
const documented = await run(CARGO, ["test", ...args, "--doc", "--quiet"], { stdio: "inherit" });
if (!documented.ok) failed.push("examples in doc comments");
if (failed.length > 0) {
  console.error(`\nfailed: ${failed.join(", ")}`);
  process.exit(1);
}
