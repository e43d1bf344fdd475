import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { checkNodeVersion } from "../src/node-version.js";

test("Node.js before version 20 is refused with the version that is required", () => {
  for (const version of ["20.0.0", "20.20.2", "22.1.0", "100.0.0-nightly"]) checkNodeVersion(version);
  for (const version of ["19.9.0", "18.20.4", "0.12.18"]) {
    assert.throws(() => checkNodeVersion(version), {
      message: `@everstep/sdk requires Node.js 20 or later, and this is Node.js ${version}: install a newer version from https://nodejs.org`,
    });
  }
  assert.throws(() => checkNodeVersion(undefined), /requires Node.js 20 or later, and this is not Node.js/);
});

for (const entry of ["index", "client", "runtime", "testing"]) {
  test(`the entry point ${entry} checks the version of Node.js at import, before any other code`, () => {
    const url = new URL(`../src/${entry}.js`, import.meta.url).href;
    const program = `
      Object.defineProperty(process, "versions", { value: { ...process.versions, node: "18.20.4" } });
      await import(${JSON.stringify(url)}).then(() => console.log("imported"), (error) => console.log(error.message));`;
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    assert.match(stdout, /^@everstep\/sdk requires Node.js 20 or later, and this is Node.js 18.20.4/);
  });
}
