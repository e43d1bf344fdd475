import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Refresher, useThrottled } from "./throttle";

const PERIOD = 1_000;

/** A component that uses the hook, and the values that it has shown. */
function show() {
  const root = createRoot(document.createElement("div"));
  const shown: number[] = [];
  function Part({ value, isHeld }: { value: number; isHeld: boolean }) {
    const throttled = useThrottled(value, PERIOD, isHeld);
    if (shown.at(-1) !== throttled) shown.push(throttled);
    return null;
  }
  const draw = (value: number, isHeld = false) => act(async () => root.render(<Part value={value} isHeld={isHeld} />));
  const pass = (ms: number) => act(async () => vi.advanceTimersByTime(ms));
  return { shown, draw, pass };
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a_value_of_every_frame_is_renewed_once_per_second_and_the_last_one_arrives", async () => {
  const { shown, draw, pass } = show();
  for (let frame = 0; frame <= 150; frame += 1) {
    await draw(frame);
    await pass(16);
  }
  await pass(PERIOD);
  // 151 frames are 2.4 s: the first change is shown at once, the last one after the rest of its second.
  expect(shown.slice(0, 2)).toEqual([0, 1]);
  expect(shown).toHaveLength(5);
  expect(shown.at(-1)).toBe(150);
});

test("a_value_is_not_renewed_while_it_is_held", async () => {
  const { shown, draw, pass } = show();
  await draw(1);
  await draw(2, true);
  await pass(10 * PERIOD);
  expect(shown).toEqual([1]);
  await draw(3, false);
  expect(shown).toEqual([1, 3]);
});

test("changes_are_followed_by_one_read_per_second_that_is_not_replaced", async () => {
  const reads: Array<() => void> = [];
  const refresher = new Refresher(() => new Promise<void>((resolve) => reads.push(resolve)), 250, PERIOD);
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  for (let n = 0; n < 50; n += 1) {
    refresher.request();
    await pass(100);
  }
  expect(reads, "the first read has no answer yet").toHaveLength(1);
  reads[0]?.();
  await pass(250);
  expect(reads, "a change during a read is followed by another one").toHaveLength(2);
  reads[1]?.();
  await pass(10 * PERIOD);
  expect(reads, "nothing has changed since").toHaveLength(2);
  refresher.request();
  refresher.stop();
  await pass(10 * PERIOD);
  expect(reads, "it is stopped").toHaveLength(2);
});
