import { expect, test } from "vitest";
import { address } from "./client";
import { may } from "./me";
import { ignoredReason } from "./signals";
import { pauseBefore } from "./socket";

test("values_of_a_path_are_escaped", () => {
  expect(address("/v1/runs/{id}/steps/{key}", { id: "a/b", key: "each[0].x" }, { attempt: 2, part: undefined })).toBe(
    "/v1/runs/a%2Fb/steps/each%5B0%5D.x?attempt=2",
  );
});

test("the_pause_before_a_connection_grows_to_thirty_seconds", () => {
  expect([0, 1, 2, 10].map((attempt) => pauseBefore(attempt, 1))).toEqual([1_000, 2_000, 4_000, 30_000]);
  expect(pauseBefore(0, 0)).toBe(500);
});

test("permissions_imply_each_other_as_on_the_server", () => {
  expect(may(["workflow:manage"], "workflow:act")).toBe(true);
  expect(may(["workflow:admin"], "workflow:publish")).toBe(true);
  expect(may(["workflow:admin"], "worker:serve")).toBe(false);
  expect(may(["workflow:view"], "workflow:manage")).toBe(false);
});

test("a_signal_that_changed_nothing_has_a_reason", () => {
  expect(ignoredReason({ outcome: "ignored", reason: "no wait for this signal is open" })).toBe(
    "no wait for this signal is open",
  );
  expect(ignoredReason({ outcome: "ignored" })).toBe("Nothing changed");
  expect((["accepted", "buffered", "repeated"] as const).map((outcome) => ignoredReason({ outcome }))).toEqual([
    null,
    null,
    null,
  ]);
});
