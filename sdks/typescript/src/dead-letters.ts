// Types of dead letters, for programs that read, requeue and discard them.

import type { Json } from "./types.js";

/** `dead`: all attempts failed. `queued`: it was requeued. `delivered`: a requeue succeeded. `discarded`: a caller has discarded it. */
export type DeadLetterStatus = "dead" | "queued" | "delivered" | "discarded";

/** `delivery`: a side effect of a state machine. `start`: a workflow that an event could not start. */
export type DeadLetterSource = "delivery" | "start";

export interface DeadLetterAttempt {
  /** When it began. */
  at: string;
  /** How long it took. */
  ms: number;
  /** The code of its failure, or `DELIVERED`. */
  code: string;
  message: string;
  /** The HTTP status of the response, if there was one. */
  status?: number;
}

/** Work that failed permanently. */
export interface DeadLetter {
  id: string;
  status: DeadLetterStatus;
  source: DeadLetterSource;
  /** The kind of the work, such as `webhook`. */
  kind: string;
  /** The run to which the work belongs. */
  run: string | null;
  workflow: string | null;
  step: string | null;
  /** The id that the receiver gets, the same for all attempts and requeues. */
  deliveryId: string;
  /** The entry in the history of the run that decided the work. */
  historyId: string | null;
  event: string | null;
  subscription: string | null;
  /** The receiver, without the query and credentials of a URL. */
  target: string;
  /** All attempts, oldest first: at most 30, of which the first one is kept. */
  attempts: DeadLetterAttempt[];
  /** Why it was discarded. */
  reason: string | null;
  /** When the last of the first attempts failed. */
  createdAt: string;
  /** When the status changed. */
  changedAt: string;
  /** When operators were notified. */
  notifiedAt: string | null;
}

export interface DeadLetterDetails extends DeadLetter {
  /** The config as it was decided; of the kind `workflow` also the `cause` of its run. A secret is its name. */
  config: Json;
  /** The places in the config that name secrets, as JSON pointers. */
  secrets: string[];
}

export interface DeadLetterFilter {
  status?: DeadLetterStatus;
  source?: DeadLetterSource;
  kind?: string;
  workflow?: string;
  run?: string;
  /** The code of the last failed attempt, such as `HTTP_STATUS`. */
  error?: string;
  since?: Date | string;
  until?: Date | string;
  limit?: number;
}

export interface DeadLetterPage {
  deadLetters: DeadLetter[];
  nextCursor: string | null;
}

/** Dead letters, newest first: iterate over all of them with `for await`, or read them page by page. */
export interface DeadLetterList extends AsyncIterable<DeadLetter> {
  page(cursor?: string | null): Promise<DeadLetterPage>;
}

export interface DiscardOptions {
  reason?: string;
}

export interface DeadLetters {
  list(filter?: DeadLetterFilter): DeadLetterList;
  get(id: string): Promise<DeadLetterDetails>;
  /** Performs the work again, up to three times, with the same config and `deliveryId`. Returns before it is performed. */
  requeue(id: string): Promise<DeadLetter>;
  /** Closes a dead letter that is not needed. */
  discard(id: string, options?: DiscardOptions): Promise<DeadLetter>;
}
