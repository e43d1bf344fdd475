// Published events in a unit test. They are kept, so that a wait can look back, and matched with open waits.

import { isDeepStrictEqual } from "node:util";
import { contains } from "./contains.js";
import { checkTopic } from "./options.js";
import type { TestEvent, TestPublished } from "./testing.js";
import type { EventRef } from "./types.js";
import type { Report, Since } from "./wire.js";

/** An event that was published. */
export interface KeptEvent {
  readonly ref: EventRef;
  readonly atMs: number;
  /** The data. Every wait parses it again, because the function may change the value. */
  readonly json: string;
  /** The event in the options of the test. */
  readonly given: TestEvent | undefined;
}

/** A wait that events resolve. */
export interface TopicWait {
  readonly event: string;
  readonly match: unknown;
}

/** Publish steps in a row above which events cause each other without end. */
const DEPTH_MAX = 32;

export class TestTopics {
  readonly published: TestPublished[] = [];
  /** In the order of their times. */
  private readonly kept: KeptEvent[] = [];
  private readonly onDemand: TestEvent[] = [];
  private readonly unmatched = new Set<TestEvent>();
  /** Events that the run has taken: it takes each once. */
  private readonly taken = new Set<KeptEvent>();
  private count = 0;

  constructor(
    private readonly run: string,
    /** Of the events that the run publishes. */
    private readonly depth: number,
    events: readonly TestEvent[],
  ) {
    for (const event of events) {
      checkTopic(event.topic, "the topic of an event of the test");
      this.unmatched.add(event);
      if (event.at === undefined) this.onDemand.push(event);
    }
  }

  /** Events of the test that have resolved no wait. */
  get unreceived(): TestEvent[] {
    return [...this.unmatched];
  }

  /** The test publishes an event. */
  publish(event: TestEvent, atMs: number): KeptEvent {
    return this.keep(event.topic, event.source ?? "api", JSON.stringify(event.data) ?? "null", atMs, event);
  }

  /** A step publishes an event, which is undefined if the run has published it under the same id; or the reason why the step fails. */
  publishFrom({ step, topic, data, id = step, subject }: Report & { kind: "publish" }, atMs: number): { id: string; event: KeptEvent | undefined } | { code: string; message: string } {
    if (this.depth > DEPTH_MAX) return { code: "EVENT_LOOP", message: `events start one another at most ${DEPTH_MAX} times in a row` };
    const first = this.published.find((one) => one.eventId === id);
    if (first !== undefined) {
      const isSame = first.topic === topic && first.subject === subject && isDeepStrictEqual(first.data, JSON.parse(data));
      if (isSame) return { id: first.id, event: undefined };
      return { code: "IDEMPOTENCY_KEY_REUSED", message: `the run has published another event under the id "${id}"; use another id` };
    }
    const event = this.keep(topic, `run:${this.run}`, data, atMs, undefined);
    const published: TestPublished = { step, id: event.ref.id, eventId: id, topic, data: JSON.parse(data), at: new Date(atMs) };
    if (subject !== undefined) published.subject = subject;
    this.published.push(published);
    return { id: event.ref.id, event };
  }

  /** An event that a called workflow has published. */
  publishOfChild(call: string, published: TestPublished): KeptEvent {
    this.published.push({ ...published, step: `${call}/${published.step}`, eventId: `${call}/${published.eventId}` });
    return this.keep(published.topic, `run:${this.run}/${call}`, JSON.stringify(published.data), published.at.getTime(), undefined);
  }

  /** The oldest event that a wait finds when it is opened and looks back. */
  oldest(wait: TopicWait, since: Since, startedMs: number, nowMs: number): KeptEvent | undefined {
    const from = since === "start" ? startedMs : "agoMs" in since ? nowMs - since.agoMs : since.atMs;
    return this.kept.find((event) => event.atMs >= from && event.atMs <= nowMs && !this.taken.has(event) && this.matches(wait, event));
  }

  /** The first event without a time that a wait accepts when it is opened: it is published now. */
  takeOnDemand(wait: TopicWait): TestEvent | undefined {
    const at = this.onDemand.findIndex((event) => event.topic === wait.event && accepts(wait, JSON.stringify(event.data) ?? "null"));
    return at < 0 ? undefined : this.onDemand.splice(at, 1)[0];
  }

  matches(wait: TopicWait, event: KeptEvent): boolean {
    return wait.event === event.ref.topic && accepts(wait, event.json);
  }

  /** An event has resolved a wait. */
  received(event: KeptEvent): void {
    this.taken.add(event);
    if (event.given !== undefined) this.unmatched.delete(event.given);
  }

  private nextId(): string {
    this.count += 1;
    return `${this.run.slice(0, 19)}9${this.run.slice(20, 24)}${String(this.count).padStart(12, "0")}`;
  }

  private keep(topic: string, source: string, json: string, atMs: number, given: TestEvent | undefined): KeptEvent {
    const event: KeptEvent = { ref: { id: this.nextId(), topic, source, at: new Date(atMs).toISOString() }, atMs, json, given };
    const later = this.kept.findIndex((one) => one.atMs > atMs);
    this.kept.splice(later < 0 ? this.kept.length : later, 0, event);
    return event;
  }
}

function accepts({ match }: TopicWait, json: string): boolean {
  return match === undefined || contains(JSON.parse(json), match);
}
