import assert from "node:assert/strict";
import { test } from "node:test";
import { days, milliseconds, moment } from "../src/duration.js";

test("durations are read as people write them", () => {
  const cases: [string | number, number][] = [
    ["500ms", 500],
    ["1s", 1_000],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["1h 30m", 5_400_000],
    ["7d", 604_800_000],
    ["30d", 2_592_000_000],
    ["2w", 1_209_600_000],
    ["1.5s", 1_500],
    ["0s", 0],
    [250, 250],
    [0.2, 1],
  ];
  for (const [text, ms] of cases) assert.equal(milliseconds(text, "it"), ms, String(text));
});

test("what is no duration is refused, and named", () => {
  for (const wrong of ["", "5", "5 parsecs", "m", "-5m", "1h-2m", "5m!", -1, Number.NaN, Number.POSITIVE_INFINITY, "5M"]) {
    assert.throws(() => milliseconds(wrong, "the sleep"), { name: "TypeError", message: /the sleep is/ }, String(wrong));
  }
  assert.throws(() => milliseconds(null as never, "it"), TypeError);
  assert.throws(() => milliseconds("40000d", "it"), /hundred years/);
});

test("retention is in days", () => {
  assert.equal(days("30d", "it"), 30);
  assert.equal(days(90, "it"), 90);
  assert.equal(days("36h", "it"), 2);
  for (const wrong of [0, -1, "0d", "soon"]) assert.throws(() => days(wrong, "the retention"), /the retention/);
});

test("a moment is a date, text or a number", () => {
  const at = Date.UTC(2026, 4, 1);
  assert.equal(moment(new Date(at), "it"), at);
  assert.equal(moment("2026-05-01T00:00:00Z", "it"), at);
  assert.equal(moment("2026-05-01T02:30:00.000+02:30", "it"), at);
  assert.equal(moment(at, "it"), at);
  // The second of these would be March, the third another moment on each machine.
  for (const wrong of ["tomorrow", "2030-02-31T00:00:00Z", "2030-03-31T02:30:00", "10", "order 7", "2030-01-01", "2030-13-01T00:00:00Z"]) {
    assert.throws(() => moment(wrong, "the end"), { name: "TypeError", message: /^the end is ".*": write a Date, RFC 3339 text/ }, wrong);
  }
  assert.throws(() => moment(new Date(Number.NaN), "the end"), TypeError);
});
