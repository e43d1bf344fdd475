// The journal of a run without its values.

import { call } from "./client";
import type { Heads } from "./types";

/** Entries of one page. The largest that the server sends. */
const HEADS_PAGE = 10_000;

/** Reads all heads after an entry, and hands them over page by page. */
export async function readHeads(
  id: string,
  after: number,
  receive: (heads: Heads["entries"]) => void,
  signal?: AbortSignal,
): Promise<void> {
  let from: number | null = after;
  while (from !== null) {
    const query = new URLSearchParams({ view: "heads", after: String(from), limit: String(HEADS_PAGE) });
    const page = (await call("GET /v1/runs/{id}/journal", { path: { id }, query, signal })) as Heads;
    receive(page.entries);
    from = page.nextAfter;
  }
}
