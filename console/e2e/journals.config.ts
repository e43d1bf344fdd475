import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Without a server and a browser: a test of crates/everstep-api writes the journals and starts this check.
export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: { include: ["e2e/journals.check.ts"], environment: "node", testTimeout: 60_000 },
});
