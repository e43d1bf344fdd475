// The steps of a run according to the server's journal, and the order in which the function receives their results.

import type { StepRecord } from "./wire.js";

/** A result that the function has not received yet. */
export interface StepResult {
  readonly seq: number;
  readonly step: string;
  /** Undefined for a step that completed in this turn: its output is in memory. */
  readonly record: StepRecord | undefined;
}

export class Journal {
  /** How many steps of the journal the function has not asked for yet. */
  unasked = 0;
  /** Whether the function has asked for a step of the journal. */
  isBegun = false;
  /** How many results of earlier turns the function has not received yet. */
  private replayed = 0;
  private readonly records = new Map<string, StepRecord>();
  /** In the order of `seq`; the function has received those before `head`. */
  private readonly results: StepResult[] = [];
  private head = 0;

  constructor(steps: readonly StepRecord[]) {
    for (const record of steps) if (this.learn(record)) this.replayed += 1;
  }

  /** Whether the function repeats what it did in an earlier turn. */
  get isReplaying(): boolean {
    return this.unasked > 0 || this.replayed > 0;
  }

  get isDelivered(): boolean {
    return this.head === this.results.length;
  }

  /** The function asks for a step. */
  ask(step: string): StepRecord | undefined {
    const record = this.records.get(step);
    if (record !== undefined) {
      this.unasked -= 1;
      this.isBegun = true;
    }
    return record;
  }

  /** Adds a record of a step that the function has not asked for. Returns whether it is a result. */
  learn(record: StepRecord): boolean {
    const before = this.records.get(record.step);
    if (before === undefined) this.unasked += 1;
    else if (isResult(before)) return false;
    this.records.set(record.step, record);
    if (!isResult(record)) return false;
    this.add({ seq: record.seq, step: record.step, record });
    return true;
  }

  add(result: StepResult): void {
    const results = this.results;
    results.push(result);
    for (let i = results.length - 1; i > this.head && (results[i - 1] as StepResult).seq > result.seq; i--) {
      results[i] = results[i - 1] as StepResult;
      results[i - 1] = result;
    }
  }

  /** The next result in order. */
  peek(): StepResult | undefined {
    const next = this.results[this.head];
    if (next === undefined && this.head > 0) {
      this.results.length = 0;
      this.head = 0;
    }
    return next;
  }

  /** Removes a result that the function receives now. */
  deliver(result: StepResult): void {
    if (this.results[this.head] === result) this.head += 1;
    else this.results.splice(this.results.indexOf(result), 1);
    this.forget(result);
  }

  /** Removes the record of a result. */
  forget(result: StepResult): void {
    if (result.record === undefined) return;
    this.records.delete(result.step);
    if (this.replayed > 0) this.replayed -= 1;
  }

  /** The first result whose step was asked for, though earlier ones were not. */
  firstOf(isAsked: (step: string) => boolean): StepResult | undefined {
    return this.results.slice(this.head).find((result) => isAsked(result.step));
  }

  /** The step with the lowest seq that was not asked for. */
  missing(isAsked: (step: string) => boolean): StepRecord | undefined {
    if (this.unasked === 0) return undefined;
    let first: StepRecord | undefined;
    for (const record of this.records.values()) {
      if (!isAsked(record.step) && (first === undefined || record.seq < first.seq)) first = record;
    }
    return first;
  }
}

function isResult(record: StepRecord): boolean {
  return record.status !== "open" && record.status !== "retry";
}
