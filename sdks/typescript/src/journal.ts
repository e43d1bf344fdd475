// What the journal knows of a run's steps, and in which order the function is given it.

import type { Known } from "./wire.js";

/** A result on its way to the function. */
export interface Result {
  readonly seq: number;
  readonly step: string;
  /** Undefined: what the step has given in this very turn. */
  readonly known: Known | undefined;
}

export class Journal {
  /** Steps that the function has not asked for yet. */
  unasked = 0;
  /** Results of earlier turns that the function does not have yet. */
  private replayed = 0;
  private readonly known = new Map<string, Known>();
  /** In the order of their seq; those before `head` are delivered. */
  private readonly results: Result[] = [];
  private head = 0;

  constructor(steps: readonly Known[]) {
    for (const known of steps) if (this.learn(known)) this.replayed += 1;
  }

  /** Whether the function is told things that it was told before. */
  get isReplaying(): boolean {
    return this.unasked > 0 || this.replayed > 0;
  }

  get isDelivered(): boolean {
    return this.head === this.results.length;
  }

  /** The function asks for a step. */
  ask(step: string): Known | undefined {
    const known = this.known.get(step);
    if (known !== undefined) this.unasked -= 1;
    return known;
  }

  /** Something is known of a step that the function has not asked for. Whether it is a result. */
  learn(known: Known): boolean {
    const before = this.known.get(known.step);
    if (before === undefined) this.unasked += 1;
    else if (isResult(before)) return false;
    this.known.set(known.step, known);
    if (!isResult(known)) return false;
    this.add({ seq: known.seq, step: known.step, known });
    return true;
  }

  add(result: Result): void {
    const results = this.results;
    results.push(result);
    for (let i = results.length - 1; i > this.head && (results[i - 1] as Result).seq > result.seq; i--) {
      results[i] = results[i - 1] as Result;
      results[i - 1] = result;
    }
  }

  /** The result that comes next. */
  peek(): Result | undefined {
    const next = this.results[this.head];
    if (next === undefined && this.head > 0) {
      this.results.length = 0;
      this.head = 0;
    }
    return next;
  }

  /** The function is given a result. */
  deliver(result: Result): void {
    if (this.results[this.head] === result) this.head += 1;
    else this.results.splice(this.results.indexOf(result), 1);
    this.forget(result);
  }

  /** A result need not be kept. */
  forget(result: Result): void {
    if (result.known === undefined) return;
    this.known.delete(result.step);
    if (this.replayed > 0) this.replayed -= 1;
  }

  /** The first result, out of order, of a step that was asked for. */
  firstOf(isAsked: (step: string) => boolean): Result | undefined {
    return this.results.slice(this.head).find((result) => isAsked(result.step));
  }

  /** The first step that was not asked for. */
  missing(isAsked: (step: string) => boolean): Known | undefined {
    if (this.unasked === 0) return undefined;
    let first: Known | undefined;
    for (const known of this.known.values()) {
      if (!isAsked(known.step) && (first === undefined || known.seq < first.seq)) first = known;
    }
    return first;
  }
}

function isResult(known: Known): boolean {
  return known.status !== "open" && known.status !== "retry";
}
