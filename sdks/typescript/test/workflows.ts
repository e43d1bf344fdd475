// Workflows that several suites run.

import { workflow } from "../src/runtime.js";

/** Adds the numbers up to one, each in a step. */
export const sum = workflow({
  name: "sum",
  run: async (ctx, input: { upTo: number }) => {
    let sum = 0;
    for (let i = 1; i <= input.upTo; i++) sum = await ctx.step.run(`add-${i}`, async () => sum + i);
    return { sum };
  },
});

/** Waits for `go`. */
export const patient = workflow({ name: "patient", run: (ctx) => ctx.step.waitForEvent("go") });
