// The status of a run or a step: a mark with its own shape, a colour and a word.

import { tWord } from "../lib/i18n";
import type { AnyStatus } from "../lib/status";

export function StatusMark({ status, size = 14 }: { status: AnyStatus; size?: number }) {
  return (
    <svg
      className={`ui-mark is-${status}`}
      width={size}
      height={size}
      viewBox="0 0 14 14"
      fill="none"
      aria-hidden="true"
    >
      {shape(status)}
    </svg>
  );
}

function shape(status: AnyStatus) {
  const line = { stroke: "currentColor", strokeWidth: 1.6, strokeLinecap: "round", strokeLinejoin: "round" } as const;
  switch (status) {
    case "completed":
      return (
        <>
          <circle cx="7" cy="7" r="6" fill="currentColor" />
          <path d="m4.3 7.2 1.9 1.9 3.5-3.8" {...line} stroke="var(--surface)" />
        </>
      );
    case "failed":
      return (
        <>
          <circle cx="7" cy="7" r="6" fill="currentColor" />
          <path d="m5 5 4 4M9 5 5 9" {...line} stroke="var(--surface)" />
        </>
      );
    case "running":
      return (
        <>
          <circle cx="7" cy="7" r="5.2" {...line} opacity={0.25} />
          <path className="spin" d="M7 1.8A5.2 5.2 0 0 1 12.2 7" {...line} />
        </>
      );
    case "waiting":
      return (
        <>
          <circle cx="7" cy="7" r="5.2" {...line} />
          <path d="M7 4.2V7l1.8 1.2" {...line} />
        </>
      );
    case "paused":
      return (
        <>
          <circle cx="7" cy="7" r="6" fill="currentColor" />
          <path d="M5.5 5v4M8.5 5v4" {...line} stroke="var(--surface)" />
        </>
      );
    case "cancelled":
      return (
        <>
          <circle cx="7" cy="7" r="5.2" {...line} />
          <path d="m3.6 10.4 6.8-6.8" {...line} />
        </>
      );
    case "skipped":
      return <path d="m3 4 3 3-3 3M8 4l3 3-3 3" {...line} />;
    case "pending":
      return <circle cx="7" cy="7" r="5.2" {...line} strokeDasharray="1.5 2.6" />;
  }
}

export function Status({ status, isPill }: { status: AnyStatus; isPill?: boolean }) {
  return (
    <span className={`ui-status is-${status}${isPill ? " pill" : ""}`}>
      <StatusMark status={status} />
      {tWord("status", status)}
    </span>
  );
}
