// Builds all test programs, and runs three of them at a time: most of them wait for processes, leases and disks, so that
// two at a time leave two cores partly idle. `cargo test` runs one at a time.
//
// Usage: node scripts/suites.mjs beside|alone [arguments of `cargo test`]
//
// `beside` runs every suite except those in ALONE. The suites that take longest begin first. The modules of `engine` in
// POSTGRES run a second time, on PostgreSQL. The output of a suite is printed when it has ended, the longest suites and
// the failed ones at the end.
//
// `alone` runs the suites in ALONE, whose tests measure time, one after the other. Then it repeats the tests that failed
// in `beside`: many tests bound the time of an operation, and a busy machine can exceed the bound. A test that passes
// alone is reported as unsteady: it is a bug of the test or a race of the product. More than UNSTEADY_MAX fail the run.
// `beside` therefore succeeds if the failed tests can be repeated; `alone` gives the verdict.
//
// The databases of the tests are in memory (/dev/shm) if it has room: hundreds of databases are created and deleted, and
// a killed process loses no page that it has written, on either kind of file system. TMPDIR selects another folder.

import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const LANES = Number(process.env.SUITES ?? 3);
const CARGO = process.env.CARGO ?? "cargo";
const LONGEST = ["console", "simulation", "contract_postgres", "faults", "conformance", "engine on PostgreSQL", "engine", "machines", "suite", "cluster"];
const POSTGRES = (
  "engine clock records shapes children forks lanes code names stranded formats " +
  "machines deliveries dead_letters topics code_topics pending starts"
).split(" ");
const ALONE = ["sandbox", "neighbours"];
const UNSTEADY_MAX = 3;
const TARGET = process.env.CARGO_TARGET_DIR ?? "target";
const SHARED_MEMORY = "/dev/shm";
const TMPFS = 0x01021994;
const ROOM_MIN = 4 * 2 ** 30;
const TO_REPEAT = join(TARGET, "suites", "repeat.json");

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

/** A folder in memory for the files of the tests; none if this machine has no room. */
function folderInMemory() {
  if (process.env.TMPDIR || !existsSync(SHARED_MEMORY)) return null;
  const { type, bavail, bsize } = statfsSync(SHARED_MEMORY);
  if (type !== TMPFS || bavail * bsize < ROOM_MIN) return null;
  const folder = mkdtempSync(join(SHARED_MEMORY, "everstep-"));
  // PostgreSQL runs as another user than root.
  chmodSync(folder, 0o1777);
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));
  return folder;
}

/** The test programs, as `cargo test` would run them. */
async function buildSuites(args) {
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
  const again = programs
    .filter(({ name }) => name === "engine")
    .map((suite) => {
      const args = POSTGRES.map((module) => `${module}::`);
      return { ...suite, name: "engine on PostgreSQL", args, env: { TEST_STORE: "postgres" } };
    });
  const rank = ({ name }) => (LONGEST.includes(name) ? LONGEST.indexOf(name) : LONGEST.length);
  return [...programs, ...again].sort((a, b) => rank(a) - rank(b));
}

async function runSuite(suite, args = suite.args) {
  const since = Date.now();
  const env = { ...process.env, CARGO_MANIFEST_DIR: suite.folder, ...suite.env };
  const { ok, signal, output } = await run(suite.executable, args, { cwd: suite.folder, env });
  const seconds = (Date.now() - since) / 1000;
  console.log(`\n== ${suite.name}: ${ok ? "passed" : signal ? `ended by ${signal}` : "FAILED"} in ${seconds.toFixed(1)} s`);
  // The list of passed tests is of no interest.
  console.log(ok ? (output.match(/figures: .*|^test result.*$/gm) ?? []).join("\n") : output);
  return { suite, ok, seconds, failed: ok ? [] : failedTests(output) };
}

/** The names in the last list "failures:" of a test program. */
function failedTests(output) {
  const list = output.split(/^failures:$/m).at(-1) ?? "";
  return [...list.matchAll(/^ {4}(\S+)$/gm)].map(([, name]) => name);
}

/** Runs the suites, a number of them at a time. */
async function runSuites(suites, lanes) {
  const queue = [...suites];
  const ended = [];
  async function lane() {
    for (let suite = queue.shift(); suite; suite = queue.shift()) ended.push(await runSuite(suite));
  }
  const began = Date.now();
  await Promise.all(Array.from({ length: lanes }, lane));
  const minutes = ((Date.now() - began) / 60_000).toFixed(1);
  const longest = ended.toSorted((a, b) => b.seconds - a.seconds).slice(0, 10);
  const shown = longest.map(({ suite, seconds }) => `${suite.name} ${seconds.toFixed(0)} s`).join(", ");
  console.log(`\n${ended.length} suites in ${minutes} minutes; the longest: ${shown}`);
  return ended.filter(({ ok }) => !ok);
}

async function beside(args) {
  rmSync(TO_REPEAT, { force: true });
  const suites = (await buildSuites(args)).filter(({ name }) => !ALONE.includes(name));
  console.log(`${suites.length} suites, ${LANES} at a time`);
  const failed = await runSuites(suites, LANES);
  const documented = await run(CARGO, ["test", ...args, "--doc", "--quiet"], { stdio: "inherit" });
  const names = failed.map(({ suite }) => suite.name);
  if (!documented.ok) names.push("examples in doc comments");
  if (names.length === 0) return;
  console.error(`\nfailed: ${names.join(", ")}`);
  const tests = failed.reduce((sum, { failed }) => sum + failed.length, 0);
  // A program that was ended by a signal has no list of failed tests.
  if (!documented.ok || failed.some(({ failed }) => failed.length === 0) || tests > UNSTEADY_MAX) process.exit(1);
  mkdirSync(dirname(TO_REPEAT), { recursive: true });
  writeFileSync(TO_REPEAT, JSON.stringify(failed.map(({ suite, failed }) => ({ name: suite.name, tests: failed }))));
  console.error(`make test repeats ${tests === 1 ? "this test" : `these ${tests} tests`} alone`);
}

async function alone(args) {
  const suites = await buildSuites(args);
  const failed = await runSuites(suites.filter(({ name }) => ALONE.includes(name)), 1);
  const repeated = existsSync(TO_REPEAT) ? JSON.parse(readFileSync(TO_REPEAT, "utf8")) : [];
  for (const { name, tests } of repeated) {
    const suite = suites.find((suite) => suite.name === name);
    const again = await runSuite(suite, ["--exact", ...tests]);
    if (!again.ok) failed.push(again);
    else for (const test of tests) console.log(`UNSTEADY: ${name} ${test} failed beside other suites and passes alone`);
  }
  if (failed.length === 0) return;
  console.error(`\nfailed: ${failed.map(({ suite }) => suite.name).join(", ")}`);
  process.exit(1);
}

const [mode, ...args] = process.argv.slice(2);
const folder = folderInMemory();
if (folder) process.env.TMPDIR = folder;
if (mode === "beside") await beside(args);
else if (mode === "alone") await alone(args);
else {
  console.error("usage: node scripts/suites.mjs beside|alone [arguments of `cargo test`]");
  process.exit(2);
}
