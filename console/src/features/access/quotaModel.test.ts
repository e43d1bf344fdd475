import { expect, test } from "vitest";
import { readUse } from "./quotaModel";

test("a_quota_is_near_from_ninety_percent_and_reached_at_its_end", () => {
  const levelOf = (used: number, max: number) => readUse({ used, max }).level;
  expect([0, 899, 900, 999, 1_000, 1_004].map((used) => levelOf(used, 1_000))).toEqual([
    "free",
    "free",
    "near",
    "near",
    "reached",
    "reached",
  ]);
  expect(levelOf(0, 0), "nothing fits into an empty quota").toBe("reached");
});

test("a_share_is_rounded_down", () => {
  expect(readUse({ used: 8_999, max: 10_000 }).percent).toBe(89);
  expect(readUse({ used: 9_999, max: 10_000 }).percent).toBe(99);
});
