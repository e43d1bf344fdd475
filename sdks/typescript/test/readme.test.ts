import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { compile, root, run } from "./examples.js";
import { Peer } from "./peer.js";

test("the examples of the README type-check, and the first runs as printed", async () => {
  // Within the package, so that its own name means its build.
  const folder = mkdtempSync(join(root, "dist", "readme-"));
  const peer = new Peer();
  await peer.listen();
  try {
    compile(folder);
    await run(folder, peer);
  } finally {
    await peer.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
