// The reports that the server has not answered yet.

import type { PendingReport } from "./outbox.js";

/** A power of two. It is higher than the concurrency of any worker, so that one report of each run has a slot. */
const SLOTS = 16_384;

/**
 * Unanswered reports by their number.
 *
 * Reports are numbered consecutively, and most are answered soon: report `n` is in slot `n % SLOTS`. A `Map` alone would
 * take a quarter of a worker's processor time. V8 allocates a new table for a map whenever enough of its entries have
 * been replaced, and the old table refers to the new one. Once a table is in the old generation of the heap, it keeps
 * all later tables and their reports alive until the next full garbage collection, and every scavenge copies them.
 */
export class UnansweredReports {
  private readonly slots = new Array<PendingReport | undefined>(SLOTS).fill(undefined);
  /** Reports whose slots have gone to later ones, in the order of their numbers. */
  private readonly displaced = new Map<number, PendingReport>();
  private count = 0;
  /** The highest number of a report. */
  private last = 0;

  get isEmpty(): boolean {
    return this.count === 0;
  }

  get(n: number): PendingReport | undefined {
    const pending = this.slots[n % SLOTS];
    return pending?.n === n ? pending : this.displaced.get(n);
  }

  /** Adds the report with the next number. */
  add(pending: PendingReport): void {
    const slot = pending.n % SLOTS;
    const before = this.slots[slot];
    if (before !== undefined) this.displaced.set(before.n, before);
    this.slots[slot] = pending;
    this.last = pending.n;
    this.count += 1;
  }

  /** Replaces the report with the same number. */
  replace(pending: PendingReport): void {
    const slot = pending.n % SLOTS;
    if (this.slots[slot]?.n === pending.n) this.slots[slot] = pending;
    else this.displaced.set(pending.n, pending);
  }

  /** Removes a report, and returns it if it was there. */
  remove(n: number): PendingReport | undefined {
    const pending = this.get(n);
    if (pending === undefined) return undefined;
    const slot = n % SLOTS;
    if (this.slots[slot] === pending) this.slots[slot] = undefined;
    else this.displaced.delete(n);
    this.count -= 1;
    return pending;
  }

  /** All reports, in the order of their numbers. */
  list(): PendingReport[] {
    return [...this.newestFirst()].reverse();
  }

  *newestFirst(): Generator<PendingReport> {
    let inSlots = this.count - this.displaced.size;
    for (let n = this.last; inSlots > 0; n--) {
      const pending = this.slots[n % SLOTS];
      if (pending === undefined) continue;
      inSlots -= 1;
      yield pending;
    }
    yield* [...this.displaced.values()].reverse();
  }
}
