// Requests that depend on what changes often.

import { useEffect, useRef, useState } from "react";

/**
 * The value as it was at most `period` ms ago: it is renewed at once after a pause, and then at most once per period. The
 * last value always arrives. While `isHeld` is true, the value is not renewed: a request for it is not replaced before
 * it has an answer.
 */
export function useThrottled<T>(value: T, period: number, isHeld = false): T {
  const [shown, setShown] = useState(value);
  const renewedAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    if (isHeld || Object.is(value, shown)) return;
    const renew = () => {
      renewedAt.current = Date.now();
      setShown(value);
    };
    const rest = renewedAt.current + period - Date.now();
    if (rest <= 0) return renew();
    const timer = setTimeout(renew, rest);
    return () => clearTimeout(timer);
  }, [value, shown, period, isHeld]);
  return shown;
}

/**
 * Reads again after changes: the first change of a pause is followed by a read after `gather` ms, later ones by at most one
 * read per period. A read is not replaced before it ends, and a change during a read is followed by another one.
 */
export class Refresher {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private beganAt = Number.NEGATIVE_INFINITY;
  private isReading = false;
  private isStale = false;
  private isStopped = false;

  constructor(
    private readonly read: () => Promise<unknown>,
    private readonly gather: number,
    private readonly period: number,
  ) {}

  /** Reports a change. */
  request(): void {
    this.isStale = true;
    if (this.isReading || this.isStopped) return;
    const rest = this.beganAt + this.period - Date.now();
    this.timer ??= setTimeout(() => void this.perform(), Math.max(this.gather, rest));
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  private async perform(): Promise<void> {
    this.timer = undefined;
    this.beganAt = Date.now();
    this.isStale = false;
    this.isReading = true;
    // The cache of queries has the error of a read.
    await this.read().catch(() => undefined);
    this.isReading = false;
    if (this.isStale) this.request();
  }
}
