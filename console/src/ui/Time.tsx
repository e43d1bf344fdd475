// Times and durations that follow the clock.

import { useNow } from "../lib/clock";
import { formatAbsolute, formatDuration, formatMoment, formatRelative, toMs } from "../lib/time";

/** A time relative to now; the absolute time with its zone on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span className="faint">–</span>;
  const ms = toMs(at);
  return (
    <time dateTime={at} title={formatAbsolute(ms)}>
      {formatRelative(ms, now)}
    </time>
  );
}

/** A time inside a sentence, such as "since 14:02:11"; with its zone on hover. */
export function Moment({ at }: { at: string }) {
  const now = useNow();
  const ms = toMs(at);
  return (
    <time dateTime={at} title={formatAbsolute(ms)}>
      {formatMoment(ms, now)}
    </time>
  );
}

/** The duration between two times, or until now. */
export function Duration({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  if (!from) return <span className="faint">–</span>;
  return to ? <span>{formatDuration(toMs(to) - toMs(from))}</span> : <RunningDuration from={toMs(from)} />;
}

function RunningDuration({ from }: { from: number }) {
  return <span>{formatDuration(useNow() - from)}</span>;
}

/** The time that is left until a moment. */
export function Countdown({ until }: { until: string }) {
  const left = toMs(until) - useNow();
  return <span title={formatAbsolute(toMs(until))}>{formatDuration(left)}</span>;
}
