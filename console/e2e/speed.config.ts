import { defineConfig } from "vitest/config";
import scenarios from "./vitest.config";

// The budgets need a quiet machine and a release build, so that `make bench` measures them, and not `make test`. The lists
// of files replace those of the scenarios: `mergeConfig` would join them.
export default defineConfig({
  ...scenarios,
  test: { ...scenarios.test, include: ["e2e/speed.e2e.ts"], exclude: [], reporters: ["default"] },
});
