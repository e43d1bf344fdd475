// The reports that the server has not answered yet.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { PendingReport } from "../src/outbox.js";
import { UnansweredReports } from "../src/unanswered-reports.js";

const SLOTS = 16_384;

const pendingReport = (n: number, text = ""): PendingReport => ({ n, text, report: { kind: "blocked", seq: n }, run: "r", turn: 1, replay: undefined, batch: 0 });

const numbers = (reports: Iterable<PendingReport>) => [...reports].map(({ n }) => n);

describe("unanswered reports", () => {
  it("are found by number and removed once", () => {
    const reports = new UnansweredReports();
    assert.ok(reports.isEmpty);
    for (let n = 1; n <= 3; n++) reports.add(pendingReport(n));
    assert.equal(reports.get(2)?.n, 2);
    assert.equal(reports.remove(2)?.n, 2);
    assert.equal(reports.remove(2), undefined);
    assert.equal(reports.get(2), undefined);
    assert.equal(reports.get(2 + SLOTS), undefined);
    assert.deepEqual(numbers(reports.list()), [1, 3]);
    assert.deepEqual(numbers(reports.newestFirst()), [3, 1]);
    reports.remove(1);
    assert.ok(!reports.isEmpty);
    reports.remove(3);
    assert.ok(reports.isEmpty);
    assert.deepEqual(reports.list(), []);
  });

  it("stay when later ones take their slots", () => {
    const reports = new UnansweredReports();
    const isLate = (n: number) => n === 5 || n === 7 || n === SLOTS + 5;
    for (let n = 1; n <= 3 * SLOTS + 10; n++) {
      reports.add(pendingReport(n));
      if (n > 2 && !isLate(n - 2)) assert.equal(reports.remove(n - 2)?.n, n - 2);
    }
    const newest = [3 * SLOTS + 9, 3 * SLOTS + 10];
    assert.deepEqual(numbers(reports.list()), [5, 7, SLOTS + 5, ...newest]);
    assert.deepEqual(numbers(reports.newestFirst()), [5, 7, SLOTS + 5, ...newest].reverse());
    reports.replace(pendingReport(7, "shorter"));
    reports.replace(pendingReport(3 * SLOTS + 9, "shorter"));
    assert.deepEqual(
      reports.list().map(({ text }) => text),
      ["", "shorter", "", "shorter", ""],
    );
    for (const n of [7, ...newest, SLOTS + 5, 5]) assert.equal(reports.remove(n)?.n, n);
    assert.ok(reports.isEmpty);
  });
});
