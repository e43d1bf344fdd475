import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { compile, compileNamed, root, run } from "./examples.js";
import { FakeServer } from "./fake-server.js";

test("the examples of the README type-check, and the first runs as printed", async () => {
  // Within the package, so that its own name means its build.
  const folder = mkdtempSync(join(root, "dist", "readme-"));
  const server = new FakeServer();
  await server.listen();
  try {
    compile(folder);
    await run(folder, server);
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the examples of the guide type-check, and its unit test passes", async () => {
  const folder = mkdtempSync(join(root, "dist", "guide-"));
  const pages = ["code-workflows", "code-steps", "code-signals", "code-versions", "code-testing", "code-workers"];
  try {
    const names = compileNamed(pages.map((page) => join(root, "..", "..", "docs", "guides", `${page}.md`)), folder);
    assert.deepEqual(names, ["hello", "order", "checked", "worker", "client", "pay", "trip", "basket", "deploy", "order.test"]);
    await import(pathToFileURL(join(folder, "order.test.js")).href);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the examples of events type-check, and their unit test passes", async () => {
  const folder = mkdtempSync(join(root, "dist", "events-"));
  try {
    const names = compileNamed([join(root, "..", "..", "docs", "guides", "code-events.md")], folder);
    assert.deepEqual(names, ["notify", "publish", "subscribe", "notify.test"]);
    await import(pathToFileURL(join(folder, "notify.test.js")).href);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the first example of the project type-checks, and prints what it says", async (t) => {
  const folder = mkdtempSync(join(root, "dist", "project-"));
  const server = new FakeServer();
  await server.listen();
  try {
    assert.deepEqual(compileNamed([join(root, "..", "..", "README.md")], folder), ["hello"]);
    process.env["EVERSTEP_URL"] = server.url;
    process.env["EVERSTEP_API_KEY"] = "es_test";
    const log = t.mock.method(console, "log", () => {});
    await import(pathToFileURL(join(folder, "hello.js")).href);
    assert.deepEqual(log.mock.calls.map((call) => call.arguments), [["Hello, Ada!"]]);
  } finally {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
