// Waits for a condition outside the page.

import { setTimeout as pause } from "node:timers/promises";

const TIMEOUT = 30_000;
const EVERY = 20;

/** Repeats a check until it holds. */
export async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + TIMEOUT;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`waited ${TIMEOUT / 1_000} s for ${what}`);
    await pause(EVERY);
  }
}
