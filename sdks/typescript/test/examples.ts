// The examples of the documents as files, so that they can be compiled and run.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Worker } from "../src/runtime.js";
import type { FakeServer } from "./fake-server.js";

/** The folder of the package. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

const APP = `
export const sent: string[] = [];
export const db = { users: { create: async (input: { email: string }) => ({ id: 42, ...input }) } };
export const email = {
  send: async (id: number): Promise<void> => void sent.push(\`welcome \${id}\`),
  nudge: async (id: number): Promise<void> => void sent.push(\`nudge \${id}\`),
};
`;

/** Writes the examples of the README into a folder and compiles them there. */
export function compile(folder: string): void {
  writeFileSync(join(folder, "app.ts"), APP);
  const names = compileNamed([join(root, "README.md")], folder);
  assert.deepEqual(names, ["onboard", "worker", "start", "charge", "serve", "client", "approve", "onboard.test"]);
}

/** Writes the examples of documents, each of which begins with its file's name, into a folder and compiles them there. */
export function compileNamed(documents: readonly string[], folder: string): string[] {
  const names = documents.flatMap((document) => {
    const blocks = [...readFileSync(document, "utf8").matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1] as string);
    return blocks.map((block) => {
      const name = /^\/\/ ([\w.]+)\.ts\n/.exec(block)?.[1];
      assert.ok(name, `an example of ${document} does not begin with its file's name`);
      writeFileSync(join(folder, `${name}.ts`), block);
      return name;
    });
  });
  build(folder);
  return names;
}

function build(folder: string): void {
  const typeRoots = [join(root, "node_modules", "@types")];
  const compilerOptions = { target: "ES2022", module: "NodeNext", strict: true, noUncheckedIndexedAccess: true, types: ["node"], typeRoots };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  execFileSync(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", folder], { stdio: "inherit" });
}

/** Runs the first examples as printed against a server, and the one for tests. */
export async function run(folder: string, server: FakeServer): Promise<void> {
  process.env["EVERSTEP_URL"] = server.url;
  process.env["EVERSTEP_API_KEY"] = "es_test";
  const load = (name: string) => import(pathToFileURL(join(folder, `${name}.js`)).href);
  const { worker } = (await load("worker")) as { worker: Worker };
  await load("start");
  const [first] = server.runs.values();
  assert.ok(first);
  await server.until(() => first.known.get("welcome-delay")?.status === "open", "the first run sleeps");
  assert.deepEqual(first.known.get("create-user")?.output, { id: 42, email: "a@b.c" });
  assert.equal(server.runs.size, 2);
  await load("onboard.test");
  const app = (await load("app")) as { sent: string[] };
  assert.deepEqual(app.sent, ["nudge 42", "welcome 42"]);
  await worker.stop();
}
