import { expect, test } from "vitest";
import type { RunSummary } from "../../api/types";
import { type RunsPart, readOldest } from "./overviewModel";

const NOW = Date.parse("2026-06-01T00:00:00Z");
const HOUR = 3_600_000;
const PAGE_SIZE = 200;

/** A server with runs that started so many hours ago: it lists the newest first. */
function serverWith(ages: readonly number[]) {
  const requests: Array<number | null> = [];
  const read = async (until: number | null): Promise<RunsPart> => {
    requests.push(until);
    const found = [...ages]
      .sort((a, b) => a - b)
      .filter((age) => until === null || NOW - age * HOUR <= until)
      .map((age) => ({ id: `${age}h`, createdAt: new Date(NOW - age * HOUR).toISOString() }) as RunSummary);
    return { runs: found.slice(0, PAGE_SIZE), nextCursor: found.length > PAGE_SIZE ? "more" : null };
  };
  return { read, requests };
}

const hours = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => from + n);
const idsOf = ({ runs }: RunsPart) => runs.map((run) => run.id);

test("the_oldest_of_few_runs_are_found_with_one_request", async () => {
  const { read, requests } = serverWith([5, 1, 700]);
  expect(idsOf(await readOldest(read, NOW, 2))).toEqual(["700h", "5h"]);
  expect(requests).toEqual([null]);
});

test("the_oldest_of_many_runs_are_found_by_their_age", async () => {
  const { read } = serverWith([...hours(0, 500), 1_000, 2_000]);
  const found = await readOldest(read, NOW, 2);
  expect(idsOf(found)).toEqual(["2000h", "1000h"]);
  expect(found.nextCursor).toBeNull();
});

test("fewer_runs_are_shown_rather_than_wrong_ones", async () => {
  // 300 runs started within an hour, a week ago; one started before.
  const { read } = serverWith([...hours(0, 200), ...hours(0, 300).map((n) => 7 * 24 + n / 300), 1_000]);
  expect(idsOf(await readOldest(read, NOW, 6))).toEqual(["1000h"]);
});

test("a_part_of_too_many_old_runs_is_marked_as_one", async () => {
  const { read } = serverWith(hours(5_000, 5_500));
  const found = await readOldest(read, NOW, 6);
  expect(found.nextCursor).toBe("more");
  expect(found.runs).toHaveLength(6);
});
