import { expect, test } from "vitest";
import { lastFailures } from "./lastFailures";

const failed = (id: string, workflow: string, createdAt: string, endedAt: string) => ({
  id,
  workflow,
  createdAt,
  endedAt,
  error: { code: `CODE_${id}`, message: "it failed" },
});

test("the_failure_that_ended_last_is_the_last_one", () => {
  // Runs are listed by their creation, newest first; an old run may fail after a new one.
  const last = lastFailures([
    failed("b", "pay", "2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"),
    failed("a", "pay", "2026-01-01T00:01:00Z", "2026-01-01T00:09:00.000001Z"),
    failed("c", "ship", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
  ]);
  expect([...last]).toEqual([
    ["pay", { run: "a", code: "CODE_a", at: "2026-01-01T00:09:00.000001Z" }],
    ["ship", { run: "c", code: "CODE_c", at: "2026-01-01T00:00:01Z" }],
  ]);
});
