import { expect, test } from "vitest";
import type { RunSummary, Runs } from "../../api/types";
import { patchRuns, runsToAnnounce } from "./newRuns";

const run = (id: string, createdAt: string, status: RunSummary["status"] = "running") =>
  ({ id, workflow: "w", status, createdAt, endedAt: null }) as RunSummary;

test("changed_rows_keep_their_places", () => {
  const rows = [run("b", "2"), run("a", "1")];
  const pages: Runs[] = [{ runs: rows, nextCursor: null, scanned: rows.length, more: false }];
  const changed = new Map([["a", { ...run("a", "1", "failed"), endedAt: "3" }]]);
  const patched = patchRuns({ pages, pageParams: [""] }, changed);
  expect(patched.pages[0]?.runs.map((one) => [one.id, one.status, one.endedAt])).toEqual([
    ["b", "running", null],
    ["a", "failed", "3"],
  ]);
  expect(patchRuns({ pages, pageParams: [""] }, new Map()).pages[0]).toBe(pages[0]);
});

test("an_older_run_is_new_only_where_it_begins_to_match", () => {
  const rows = [run("b", "2")];
  const changed = [run("a", "1", "failed"), run("c", "3", "failed"), run("b", "2", "failed")];
  expect(runsToAnnounce(changed, rows, []).map((one) => one.id)).toEqual(["c"]);
  const failed = [{ name: "status", value: "failed" }];
  expect(runsToAnnounce(changed, rows, failed).map((one) => one.id)).toEqual(["a", "c"]);
  expect(runsToAnnounce(changed, rows, [{ name: "workflow", value: "other" }])).toEqual([]);
});
