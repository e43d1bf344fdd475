// Installs what `npm pack` makes into an empty project, and compiles and runs the README's examples there.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const npm = (cwd, ...words) => execFileSync("npm", words, { cwd, stdio: ["ignore", "pipe", "inherit"], encoding: "utf8" });
const folder = mkdtempSync(join(tmpdir(), "everstep-sdk-"));
try {
  npm(process.cwd(), "run", "clean");
  npm(process.cwd(), "run", "build");
  npm(process.cwd(), "pack", "--silent", "--ignore-scripts", "--pack-destination", folder);
  const [tarball] = readdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "name": "empty", "private": true, "type": "module" }');
  npm(folder, "install", "--silent", "--no-audit", "--no-fund", "--offline", `./${tarball}`);
  assert.deepEqual(readdirSync(join(folder, "node_modules")).filter((name) => !name.startsWith(".")), ["@everstep"]);
  const installed = join(folder, "node_modules", "@everstep", "sdk");
  assert.ok(!existsSync(join(installed, "dist", "test")), "tests are not packed");

  const { compile, run } = await import(new URL("../dist/test/examples.js", import.meta.url).href);
  const { FakeServer } = await import(new URL("../dist/test/fake-server.js", import.meta.url).href);
  const server = new FakeServer();
  await server.listen();
  compile(folder);
  await run(folder, server);
  await server.close();
  console.log(`${tarball} installs in an empty project, and the examples compile and run there.`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
