// How long the page is busy, compared with a loop that is measured in the same browser.

import type { Page } from "playwright-core";

/** The time of a fixed loop in ms: the fastest of several. Times of a page are ratios to it, whatever the machine. */
export function calibrate(page: Page): Promise<number> {
  return page.evaluate(() => {
    const measure = () => {
      const begin = performance.now();
      let state = 1;
      for (let n = 0; n < 20_000_000; n += 1) state = (Math.imul(state, 1_103_515_245) + 12_345) | 0;
      // The result is used, so that the loop is not removed.
      return performance.now() - begin + (state === 0 ? 1 : 0);
    };
    return Math.min(...Array.from({ length: 5 }, measure));
  });
}

/** Observes the tasks of the page's main thread that take longer than 50 ms. Call it before the page is opened. */
export async function watchTasks(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const tasks: number[] = [];
    Reflect.set(window, "longTasks", tasks);
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) tasks.push(entry.duration);
    }).observe({ type: "longtask", buffered: true });
  });
}

/** The longest task since the last call, in ms; 0 if none took longer than 50 ms. */
export function longestTask(page: Page): Promise<number> {
  return page.evaluate(async () => {
    // The observer is notified after a task, in a task of its own.
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const tasks = Reflect.get(window, "longTasks") as number[];
    return Math.max(0, ...tasks.splice(0));
  });
}

/** The value that a part of all values does not exceed. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0;
}
