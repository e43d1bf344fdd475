import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// One worker performs all scenarios, one after the other: they share a server and a browser.
export default defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["e2e/**/*.e2e.ts"],
    exclude: ["e2e/speed.e2e.ts"],
    globalSetup: "e2e/harness/setup.ts",
    environment: "node",
    fileParallelism: false,
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
  },
});
