// The heads of a run, and the fold of the run after any of them.
//
// Folds are stored every FOLD_EVERY heads, so that the fold at any entry is at most FOLD_EVERY updates away.

import type { Head } from "../../../api/types";
import { applyHead, copyFold, emptyFold, type Fold } from "./fold";

export const FOLD_EVERY = 500;

export class RunModel {
  private readonly heads: Head[] = [];
  /** The fold before the first head, after FOLD_EVERY heads, after twice as many, … */
  private readonly stored: Fold[] = [emptyFold()];
  private latest: Fold = emptyFold();

  /** The number of the last entry. */
  get last(): number {
    return this.heads.at(-1)?.seq ?? 0;
  }

  /** The fold after the last entry. It is another object after each `append`. */
  get fold(): Fold {
    return this.latest;
  }

  all(): readonly Head[] {
    return this.heads;
  }

  /**
   * Applies heads in order. Known ones are ignored, so a head that arrives twice changes nothing. Returns false if an
   * entry before one of them is missing: the caller reads the heads after `last` again.
   */
  append(heads: readonly Head[]): boolean {
    let isWhole = true;
    const fold = { ...this.latest };
    for (const head of heads) {
      if (head.seq <= this.last) continue;
      if (head.seq !== this.last + 1) {
        isWhole = false;
        break;
      }
      applyHead(fold, head);
      this.heads.push(head);
      if (this.heads.length % FOLD_EVERY === 0) this.stored.push(copyFold(fold));
    }
    this.latest = fold;
    return isWhole;
  }

  /** The fold after an entry. */
  at(seq: number): Fold {
    if (seq >= this.last) return this.latest;
    const count = Math.max(0, seq);
    const index = Math.floor(count / FOLD_EVERY);
    const fold = copyFold(this.stored[index] ?? emptyFold());
    for (const head of this.heads.slice(index * FOLD_EVERY, count)) applyHead(fold, head);
    return fold;
  }
}
