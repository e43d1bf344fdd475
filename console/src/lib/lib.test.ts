import { expect, test } from "vitest";
import { matchHotkey } from "./hotkeys";
import { compare, jsonRows, pathExpression, textParts } from "./json";
import { ancestors, enclosing, lastName } from "./stepKey";
import { DAY, formatDuration, formatMoment, MINUTE, toMs } from "./time";

test("a_path_is_an_expression", () => {
  expect(pathExpression("ctx", ["order", "first name", 0, "id"])).toBe('ctx.order["first name"][0].id');
});

test("a_search_opens_only_the_containers_around_matches", () => {
  const rows = jsonRows({ a: { b: "needle" }, c: { d: 1 } }, () => false, "needle");
  expect(rows.map((row) => row.name)).toEqual([null, "a", "b"]);
});

test("differences_name_their_paths", () => {
  expect(compare({ a: 1, b: [1, 2], c: 3 }, { a: 1, b: [1, 3, 4], d: 3 })).toEqual([
    { path: ["b", 1], kind: "changed", before: 2, after: 3 },
    { path: ["b", 2], kind: "added", after: 4 },
    { path: ["c"], kind: "removed", before: 3 },
    { path: ["d"], kind: "added", after: 3 },
  ]);
});

test("differences_are_found_in_names_that_every_object_has", () => {
  expect(compare({}, { constructor: 1 })).toEqual([{ path: ["constructor"], kind: "added", after: 1 }]);
});

test("a_long_text_is_split_at_lines_and_inside_long_lines", () => {
  const lines = "1234567890\n".repeat(3);
  expect(textParts(lines, 8).map((part) => part.text)).toEqual(["1234567890\n", "1234567890\n", "1234567890\n"]);
  expect(textParts("x".repeat(25), 8).map((part) => part.text.length)).toEqual([8, 8, 8, 1]);
  expect(textParts("1234567\u{1f600}890", 8).map((part) => part.text)).toEqual(["1234567\u{1f600}", "890"]);
  expect(textParts("", 8)).toEqual([]);
});

test("a_step_key_names_the_loops_around_it", () => {
  expect(enclosing("each[3].inner[0].fetch")).toEqual({ loop: "each[3].inner", iteration: 0 });
  expect(ancestors("each[3].inner[0].fetch")).toEqual(["each", "each[3].inner"]);
  expect(lastName("each[3].inner[0].fetch")).toBe("fetch");
  expect(enclosing("plain")).toBeNull();
});

test("durations_have_at_most_two_units", () => {
  expect([0.4, 240, 3_240, 65_000, 93_600_000].map(formatDuration)).toEqual([
    "0.4ms",
    "240ms",
    "3.2s",
    "1m 5s",
    "1d 2h",
  ]);
});

test("a_moment_has_a_date_unless_it_is_today", () => {
  const now = new Date(2026, 4, 1, 14, 2, 11).getTime();
  expect([now - MINUTE, now + DAY, now + 365 * DAY].map((ms) => formatMoment(ms, now))).toEqual([
    "14:01:11",
    "May 2, 14:02:11",
    "May 1, 2027, 14:02:11",
  ]);
});

test("microseconds_are_kept", () => {
  expect(toMs("2026-01-01T00:00:00.123456Z") - toMs("2026-01-01T00:00:00.123000Z")).toBeCloseTo(0.456);
  expect(toMs("2026-01-01T00:00:00.1234Z") - toMs("2026-01-01T00:00:00.123Z")).toBeCloseTo(0.4);
});

test("a_sequence_of_keys_comes_before_its_last_key", () => {
  const hotkeys = ["g r", "r"].map((keys) => ({ keys, run: () => undefined }));
  expect(matchHotkey(hotkeys, "g", "r")?.keys).toBe("g r");
  expect(matchHotkey(hotkeys, null, "r")?.keys).toBe("r");
});
