// Types of events and subscriptions, for programs that publish and read them.

import type { Json } from "./types.js";

export interface PublishEventOptions {
  /** The id of the event at its source. An event with the same source and id is published once: a publish with an id is safe to repeat. */
  id?: string;
  /** The publisher. Default: `api`. */
  source?: string;
  /** What the event is about, for people and for filters. */
  subject?: string;
  /** Waits until the event has reached all subscriptions and waits, for at most 30 seconds. */
  waitSeconds?: number;
}

/** How many targets an event has reached. */
export interface EventCounts {
  workflows: number;
  queues: number;
  http: number;
  waits: number;
  /** Subscriptions that could not start a run, or whose expression failed. */
  failed: number;
}

export interface Published {
  /** The id that the server has given to the event. */
  id: string;
  topic: string;
  /** False if an event with this source and id was published before. */
  created: boolean;
  /** Missing unless the event has reached all its targets at the time of the response. */
  matched?: EventCounts;
}

export interface EventSummary {
  id: string;
  topic: string;
  source: string;
  /** The id that the publisher has given to the event; otherwise `id`. */
  eventId: string;
  subject: string | null;
  /** When it was published. */
  at: string;
  /** The number of events before this one in its chain: a run that an event started publishes with the next number. */
  depth: number;
  /** The event that this one repeats for one subscription. */
  replayOf: string | null;
  /** Other attributes of a CloudEvent. */
  extensions: Record<string, Json>;
  /** When it had reached all its targets; null until then. */
  fannedAt: string | null;
  matched: EventCounts;
}

/** What an event has caused at one target. */
export type EventResult =
  | { type: "run"; subscription: string; run: string }
  | { type: "wait"; run: string; step: string }
  | { type: "failed"; subscription: string; code: string; message: string };

export interface EventDetails<Data = Json> extends EventSummary {
  data: Data;
  /** One page of the results. */
  results: EventResult[];
  nextCursor: string | null;
}

export interface ReplayOptions {
  /** A replay with the same key is made once: it is safe to repeat. */
  idempotencyKey?: string;
  /** Waits until the event has reached the subscription, for at most 30 seconds. */
  waitSeconds?: number;
}

export interface EventFilter {
  topic?: string;
  since?: Date | string;
  until?: Date | string;
  limit?: number;
}

export interface EventPage {
  events: EventSummary[];
  nextCursor: string | null;
}

/** Events, newest first: iterate over all of them with `for await`, or read them page by page. */
export interface EventList extends AsyncIterable<EventSummary> {
  page(cursor?: string | null): Promise<EventPage>;
}

/** The workflow that a subscription starts. */
export interface SubscriptionTarget {
  type: "workflow";
  name: string;
  /** Default: the version that is active when an event arrives. */
  version?: number;
  /** An object that the data of the event must contain; `{ $expr: "…" }` is an expression over `event` and `payload`. */
  filter?: { readonly [key: string]: unknown };
  /** A template of the run's input, with expressions over `event` and `payload`. Default: the data of the event. */
  input?: unknown;
  /** A template of the idempotency key of the run: the workflow has one run per key. */
  key?: string;
  retentionDays?: number;
}

/** Changes of a subscription; null removes a value. */
export interface SubscriptionChange {
  pattern?: string;
  name?: string;
  version?: number | null;
  filter?: { readonly [key: string]: unknown } | null;
  input?: unknown;
  key?: string | null;
  retentionDays?: number | null;
}

export interface Subscription {
  id: string;
  /** A topic, or a pattern: `*` is one segment, `#` is any number of segments, also none. */
  pattern: string;
  type: "workflow";
  name: string;
  version: number | null;
  filter: Record<string, Json> | null;
  /** Missing if the data of the event is the input. */
  input?: Json;
  key: string | null;
  retentionDays: number | null;
  /** `workflow`: a trigger in the definition of its workflow, which can be paused and not changed. */
  origin: "api" | "workflow";
  pausedAt: string | null;
  createdAt: string;
}

export interface SubscriptionFilter {
  /** Exactly this pattern. */
  pattern?: string;
  limit?: number;
}

export interface SubscriptionPage {
  subscriptions: Subscription[];
  nextCursor: string | null;
}

/** Subscriptions, oldest first: iterate over all of them with `for await`, or read them page by page. */
export interface SubscriptionList extends AsyncIterable<Subscription> {
  page(cursor?: string | null): Promise<SubscriptionPage>;
}

export interface Events {
  /** An event, its data, and the first results of its fan-out; `cursor` reads the next ones. */
  get<Data = Json>(eventId: string, cursor?: string | null): Promise<EventDetails<Data>>;
  list(filter?: EventFilter): EventList;
  /** Sends an event to one subscription again, as a new event. */
  replay(eventId: string, subscriptionId: string, options?: ReplayOptions): Promise<Published>;
}

export interface Subscriptions {
  /** Starts a run of a workflow for every event that is published from now on and that matches. */
  create(pattern: string, target: SubscriptionTarget): Promise<Subscription>;
  get(id: string): Promise<Subscription>;
  list(filter?: SubscriptionFilter): SubscriptionList;
  update(id: string, change: SubscriptionChange): Promise<Subscription>;
  /** Events start no runs until the subscription is resumed; those of the pause are skipped. */
  pause(id: string): Promise<Subscription>;
  resume(id: string): Promise<Subscription>;
  delete(id: string): Promise<void>;
}
