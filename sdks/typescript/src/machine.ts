// Types of state machines: what people do in a run, and what the server answers.

import type { Json } from "./types.js";

/** A person or a component that acted. The kind comes from the credential, not from the id. */
export interface Actor {
  kind: "person" | "key" | "worker" | "run" | "system";
  /** A person's id at the identity provider, the id of a key or a run, or a part of the server such as `@timer`. */
  id: string;
}

/** The votes for an action of a state. */
export interface Votes {
  action: string;
  count: number;
  need: number;
  /** The voters, if the definition names them. */
  of?: string[];
  by: Actor[];
}

export interface TransitionOptions {
  /** The versionNo that the caller has seen; the transition is rejected if the run has another one. Default: the versionNo when the request arrives. */
  version?: number;
  comment?: string;
  /** Values that are merged into the context of the run. */
  data?: Record<string, unknown>;
  /** The digest of the values that were shown to the person, from `runs.actions`; the transition is rejected if they have changed. */
  shown?: string;
  /** Withdraws the caller's vote for the action. */
  withdraw?: boolean;
  /** The ids of files that the caller has uploaded with `POST /v1/files`, at most 20. */
  files?: string[];
  /** A transition with the same key of the same caller returns the first answer again, for 24 hours. */
  idempotencyKey?: string;
}

/** The outcome of a transition. */
export interface Transition {
  success: true;
  /** Whether the run has moved. False for a vote that is counted and does not reach the quorum. */
  applied: boolean;
  previousState: string;
  nextState: string;
  /** The id of the entry in the history. */
  historyId: string;
  isCompleted: boolean;
  versionNo: number;
  votes?: Votes;
}

/** Why an action is not open to the caller. Programs decide by `code`. */
export interface ActionReason {
  code: string;
  message: string;
  [detail: string]: Json;
}

/** An action of the present state, for the caller. */
export interface AvailableAction {
  action: string;
  title: string | null;
  /** The states that it may lead to. */
  to: string[];
  /** Whether the caller can perform it now. */
  open: boolean;
  /** The parts that a request must have. */
  needs: { comment: boolean; data: string[]; files: number; shown: boolean };
  /** The votes, if it has a quorum. */
  quorum: Votes | null;
  /** Why it is not open. */
  reasons: ActionReason[];
}

/** The present state of a run, and what the caller can do in it. */
export interface Actions {
  state: string;
  /** The title of the state, if the definition has one. */
  title: string | null;
  versionNo: number;
  /** When the state was entered. */
  since: string;
  /** When the next timer of the state is due. */
  due: string | null;
  assigned: string[];
  votes: Votes[];
  /** The values that are shown to the person who decides, and their digest. */
  shown: { digest: string; fields: Json };
  actions: AvailableAction[];
}

/** A value of the context that an entry of the history has changed; without `before` it was added. */
export interface ContextChange {
  path: string;
  before?: Json;
  after?: Json;
}

/** A file of an entry of the history. */
export interface HistoryFile {
  id: string;
  /** Null after the file is deleted. */
  name: string | null;
  size: number | null;
  mediaType: string | null;
  isDeleted: boolean;
}

/** One entry of the history of a run. */
export interface HistoryEntry {
  id: string;
  seq: number;
  at: string;
  kind: "transition" | "vote" | "assignment" | "timer";
  /** The action; for a timer, its name. */
  action: string | null;
  from: string | null;
  to: string | null;
  versionNo: number;
  by: Actor;
  onBehalfOf: Actor | null;
  /** The comment of a request, or the reason of an assignment. */
  comment: string | null;
  files: HistoryFile[];
  /** The voters that reached the quorum. */
  votes: Actor[];
  /** Whether a vote was withdrawn. */
  isWithdrawn: boolean;
  /** The digest of the values that were shown to the person. */
  shown: string | null;
  /** The persons to whom the state was assigned, or the voter that was replaced. */
  assignment: { who: string[] } | { voter: { from: string; to: string } } | null;
  changes: ContextChange[];
}

/** The state of a run of a state machine. */
export interface MachineInfo {
  state: string;
  versionNo: number;
  enteredAt: string;
  due: string | null;
  assigned: string[];
  votes: Votes[];
}
