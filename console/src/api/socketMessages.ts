// The messages of the socket, which the OpenAPI document does not describe. Their data are types of the document.

import type { RunStatus } from "../lib/status";
import type { RunSummary } from "./types";

/** A run that has started or changed its status. */
export type FeedRun = Pick<RunSummary, "id" | "workflow" | "status" | "createdAt" | "endedAt">;

/** Messages of the socket to this page. */
export type SocketMessage =
  | { run: string; event: "snapshot" | "entry" | "status" | "end"; seq?: number; data: unknown }
  | { workspace: "counts"; data: Partial<Record<RunStatus, number>> & { silent?: string[] } }
  | { workspace: "runs"; data: FeedRun[] }
  | { workspace: "many"; data?: unknown }
  | { error: { code: string; detail: string }; run?: string };
