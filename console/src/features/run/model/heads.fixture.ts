// Journals as texts for tests: one entry per line, as the server would send its head.

import type { Head, HeadUpdate, HeadUpdateRun, HeadUpdateStep } from "../../../api/types";

const START = Date.parse("2026-01-01T00:00:00Z");

/**
 * Reads lines such as `+100 run started` and `+5 step charge began task #2`: the milliseconds since the start, then the
 * update. `due=500` and `handle=x` set fields; a loop begins with `body=3`, a child run with `child=b`. A machine enters
 * a state with `run moved review`.
 */
export function headsOf(text: string): Head[] {
  const lines = text
    .trim()
    .split("\n")
    .map((line) => line.trim());
  return lines.map((line, index) => {
    const [when = "+0", ...words] = line.split(/\s+/);
    const at = new Date(START + Number(when.slice(1))).toISOString();
    const update = words[0] === "run" ? runUpdate(words, index + 1, at) : stepUpdate(words, index + 1, at);
    return {
      seq: index + 1,
      at,
      event: words.slice(0, 3).join(" "),
      bytes: 0,
      logLines: 0,
      updates: update ? [update] : [],
    };
  });
}

function runUpdate(words: readonly string[], seq: number, at: string): HeadUpdate {
  const [, change, word] = words;
  const more = !word ? {} : change === "moved" ? { machine: { to: word, by: "ada" } } : { worker: word };
  return { of: "run", seq, at, change: change as HeadUpdateRun["change"], ...more };
}

const STATUSES: Record<string, HeadUpdateStep["status"]> = {
  completed: "completed",
  failed: "failed",
  skipped: "skipped",
  cancelled: "cancelled",
  retries: "waiting",
  retryDue: "running",
  reopened: "running",
};

function stepUpdate(words: readonly string[], seq: number, at: string): HeadUpdate | null {
  const [kind, step = "", change = "", ...rest] = words;
  if (kind !== "step") return null;
  const option = (name: string) => rest.find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1);
  const does = rest.find((word) => /^(task|wait|sleep)$/.test(word)) ?? "task";
  const [items, child] = [option("body"), option("child")];
  const activity: HeadUpdateStep["activity"] =
    items !== undefined
      ? { does: "body", items: Number(items) }
      : child !== undefined
        ? { does: "child", run: child, workflow: "inner" }
        : does === "wait"
          ? { does, event: "go" }
          : { does: does as "task" | "sleep" };
  const due = option("due");
  const began = change === "began";
  return {
    of: "step",
    seq,
    at,
    step,
    node: step.replace(/^.*\]\./, ""),
    attempt: Number(rest.find((word) => word.startsWith("#"))?.slice(1) ?? 1),
    status: began
      ? child === undefined && (does === "task" || items !== undefined)
        ? "running"
        : "waiting"
      : (STATUSES[change] ?? "running"),
    change: change as HeadUpdateStep["change"],
    ...(began ? { activity, since: at } : {}),
    ...(due === undefined ? {} : { due: new Date(START + Number(due)).toISOString() }),
    ...(option("handle") === undefined ? {} : { handle: option("handle") }),
    ...(change === "failed" ? { error: { code: "BROKEN", message: "it broke" } } : {}),
  };
}

export const since = (ms: number) => ms - START;
