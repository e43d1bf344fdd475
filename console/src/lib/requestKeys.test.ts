import { expect, test } from "vitest";
import { RequestKeys } from "./requestKeys";

test("a_request_keeps_its_key_until_its_outcome_is_known", () => {
  const keys = new RequestKeys();
  const first = keys.keyOf({ isApproved: true, comment: "" });
  expect(keys.keyOf({ isApproved: true, comment: "" })).toBe(first);
  keys.settle({ isApproved: true, comment: "" });
  expect(keys.keyOf({ isApproved: true, comment: "" })).not.toBe(first);
});

test("another_decision_after_an_unknown_outcome_has_another_key", () => {
  const keys = new RequestKeys();
  const approve = keys.keyOf({ isApproved: true, comment: "" });
  expect(keys.keyOf({ isApproved: false, comment: "" })).not.toBe(approve);
  expect(keys.keyOf({ isApproved: true, comment: "fine" })).not.toBe(approve);
  expect(keys.keyOf({ isApproved: true, comment: "" }), "the first decision is repeated as it was").toBe(approve);
});

test("a_request_without_content_has_a_key_too", () => {
  const keys = new RequestKeys();
  expect(keys.keyOf(undefined)).toBe(keys.keyOf(undefined));
});
