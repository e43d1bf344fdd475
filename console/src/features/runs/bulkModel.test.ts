import { expect, test } from "vitest";
import { ApiProblem } from "../../api/problem";
import type { RunStatus } from "../../lib/status";
import { eligible, sendEach } from "./bulkModel";

const runs = (["failed", "completed", "failed", "paused", "completed"] as RunStatus[]).map((status, index) => ({
  id: String(index),
  status,
}));

test("only_runs_that_an_action_can_change_are_counted", () => {
  expect(eligible("retry", runs)).toEqual({
    ids: ["0", "2"],
    others: [
      ["completed", 2],
      ["paused", 1],
    ],
  });
  expect(eligible("cancel", runs).ids).toEqual(["3"]);
  expect(eligible("pause", runs).ids).toEqual([]);
  expect(eligible("resume", runs).ids).toEqual(["3"]);
});

test("refusals_are_gathered_with_their_reasons", async () => {
  const result = await sendEach(["a", "b", "c"], async (id) => {
    if (id === "b") throw new ApiProblem({ status: 409, code: "RUN_ENDED", detail: "the run ended", requestId: "" });
    return { outcome: id === "a" ? "accepted" : "ignored" };
  });
  expect(result).toMatchObject({ matched: 3, accepted: 1, ignored: 1, refused: 1 });
  expect(result.errors).toEqual([{ run: "b", code: "RUN_ENDED", message: "the run ended" }]);
});

test("many_refusals_are_counted_and_the_first_ones_are_listed", async () => {
  const ids = Array.from({ length: 50 }, (_, n) => String(n));
  const result = await sendEach(ids, () => Promise.reject(new Error("no")));
  expect(result.refused).toBe(50);
  expect(result.errors).toHaveLength(20);
});
