import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  // The tests run beside the compiler, which takes most of the time of a small machine.
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "happy-dom", testTimeout: 60_000, hookTimeout: 60_000 },
});
