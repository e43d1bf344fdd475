// The heads of a run, and the fold of the run after any of them.
//
// Folds are stored every FOLD_EVERY heads, so that the fold at any entry is at most FOLD_EVERY updates away.

import type { Head } from "../../../api/types";
import { toMs } from "../../../lib/time";
import { applyHead, copyFold, emptyFold, type Fold } from "./fold";

export const FOLD_EVERY = 500;
/** Texts that are compared with those of later heads. */
const TEXTS_MAX = 2_000;

export class RunModel {
  private readonly heads: Head[] = [];
  /** The fold before the first head, after FOLD_EVERY heads, after twice as many, … */
  private readonly stored: Fold[] = [emptyFold()];
  private latest: Fold = emptyFold();
  /** The texts of the last heads. */
  private readonly texts = new Map<string, string>();

  constructor(private readonly foldEvery = FOLD_EVERY) {}

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
      const shared = this.shareTexts(head);
      applyHead(fold, shared);
      this.heads.push(shared);
      if (this.heads.length % this.foldEvery === 0) this.stored.push(copyFold(fold));
    }
    this.latest = fold;
    return isWhole;
  }

  /** The number of the last entry that was written until a time, in ms; 0 if there is none. */
  seqAt(time: number): number {
    let [from, to] = [0, this.heads.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (toMs(this.heads[middle]?.at ?? "") <= time) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  /** The fold after an entry. */
  at(seq: number): Fold {
    if (seq >= this.last) return this.latest;
    const count = Math.max(0, seq);
    const index = Math.floor(count / this.foldEvery);
    const fold = copyFold(this.stored[index] ?? emptyFold());
    for (const head of this.heads.slice(index * this.foldEvery, count)) applyHead(fold, head);
    return fold;
  }

  /**
   * Lets equal texts of heads be one text: a parser makes a new one for each place, and a long journal would need much
   * more memory.
   */
  private shareTexts(head: Head): Head {
    head.at = this.share(head.at);
    if (head.step) head.step = this.share(head.step);
    if (head.due) head.due = this.share(head.due);
    for (const update of head.updates) {
      update.at = this.share(update.at);
      if (update.of === "run") continue;
      update.step = this.share(update.step);
      update.node = this.share(update.node);
      if (update.since) update.since = this.share(update.since);
      if (update.due) update.due = this.share(update.due);
    }
    return head;
  }

  private share(text: string): string {
    const known = this.texts.get(text);
    if (known !== undefined) return known;
    if (this.texts.size >= TEXTS_MAX) this.texts.clear();
    this.texts.set(text, text);
    return text;
  }
}
