// What the compiler must accept and refuse. A line after @ts-expect-error that compiles fails the build.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Context, createWorkflowClient, type Json, type Jsonify, type OutputOf, type ReceivedEvent, type RunTrigger, workflow } from "../src/index.js";
import { test as runTest } from "../src/testing.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function holds<T extends true>(): T | undefined {
  return undefined;
}

interface Order {
  id: number;
  at: Date;
  note?: string;
  cancel(): void;
}

const ship = workflow({
  name: "ship",
  run: async (ctx, input: { order: number }) => {
    const order = await ctx.step.run("load", (): Promise<Order> => Promise.resolve({ id: input.order, at: new Date(), cancel: () => {} }));
    holds<Same<typeof order.at, string>>();
    holds<Same<typeof order.note, string | undefined>>();
    // @ts-expect-error: functions are not kept.
    order.cancel;
    // @ts-expect-error: a step's retry has a backoff of a known kind.
    void (() => ctx.step.run("x", () => 1, { retry: { backoff: { kind: "random" } } }));
    const nothing = await ctx.step.run("nothing", () => {});
    holds<Same<typeof nothing, null>>();
    const event = await ctx.step.waitForEvent<{ ok: boolean }>("paid");
    holds<Same<typeof event, { ok: boolean } | null>>();
    const full = await ctx.step.waitForEvent<{ ok: boolean }>("paid-2", { event: "paid", withEvent: true, since: "15m" });
    holds<Same<typeof full, ReceivedEvent<{ ok: boolean }> | null>>();
    const plain = await ctx.step.waitForEvent("paid-3", { event: "paid", since: new Date(0) });
    holds<Same<typeof plain, Json | null>>();
    // @ts-expect-error: an event has a topic.
    void (() => ctx.step.publish("x", { data: 1 }));
    const published = await ctx.step.publish("shipped", { topic: "order.shipped", data: order });
    holds<Same<typeof published.id, string>>();
    holds<Same<typeof ctx.trigger, RunTrigger | null>>();
    return { order: order.id, at: order.at };
  },
});

interface Basket {
  readonly id: string;
  items: readonly { name: string; price?: number }[];
  note?: string | undefined;
  parent: Basket | null;
}
class Parcel {
  weight = 1;
  weigh(): number {
    return this.weight;
  }
}

test("an input is what JSON keeps", () => {
  const takes = [
    workflow({ name: "a", run: (ctx) => ctx.attempt }),
    workflow({ name: "a", run: (ctx, input: Basket) => [ctx.attempt, input.items.length] }),
    workflow({ name: "a", run: (_, input: { kind: "a"; n: number } | { kind: "b" }) => input.kind }),
    workflow({ name: "a", run: (_, input: Record<string, number>) => input["a"] }),
    workflow({ name: "a", run: (_, input: { [key: string]: unknown }) => input["a"] }),
    workflow({ name: "a", run: (_, input: any) => input.a }),
    workflow({ name: "a", run: (_, input: Json) => input }),
    workflow({ name: "a", run: (_, input: null) => input }),
    workflow({ name: "a", run: (_, input: [string, number]) => input[1] }),
    workflow<Basket, string>({ name: "a", run: (_, input) => input.id }),
  ];
  assert.equal(takes.length, 10);
  const run = (_: Context, input: { at: Date }) => input;
  // @ts-expect-error: a Date arrives as text.
  workflow({ name: "a", run });
  // @ts-expect-error: inside too.
  workflow({ name: "a", run: (_, input: { list: { at: Date }[] }) => input });
  // @ts-expect-error: a Map arrives empty.
  workflow({ name: "a", run: (_, input: { map: Map<string, number> }) => input });
  // @ts-expect-error: methods do not arrive.
  workflow({ name: "a", run: (_, input: Parcel) => input.weigh() });
  // @ts-expect-error: a bigint cannot be sent.
  workflow({ name: "a", run: (_, input: { n: bigint }) => input.n });
});

interface Contact {
  name: string;
  message: string;
  stack?: string;
}
class Declined extends Error {
  constructor(readonly cents: number) {
    super("declined");
  }
}

test("what JSON leaves of other objects is nothing, or their numbers", () => {
  holds<Same<Jsonify<Map<string, number>>, {}>>();
  holds<Same<Jsonify<ReadonlySet<string>>, {}>>();
  holds<Same<Jsonify<RegExp>, {}>>();
  holds<Same<Jsonify<Error>, {}>>();
  holds<Same<Jsonify<{ a: Map<string, number>; e: TypeError | null }>, { a: {}; e: {} | null }>>();
  holds<Same<Jsonify<Declined>, { readonly cents: number }>>();
  holds<Same<Jsonify<Uint8Array>, Record<string, number>>>();
  holds<Same<Jsonify<Float64Array[]>, Record<string, number>[]>>();
  holds<Same<Jsonify<Buffer>, { type: "Buffer"; data: number[] }>>();
  holds<Same<Jsonify<Contact>, { name: string; message: string; stack?: string }>>();
  const values = [new Map([["a", 1]]), new Set(["a"]), /a/, new Error("a"), new Uint8Array([7])];
  assert.deepEqual(JSON.parse(JSON.stringify(values)), [{}, {}, {}, {}, { 0: 7 }]);
});

test("types flow from the definition to callers, children and tests", () => {
  holds<Same<OutputOf<typeof ship>, { order: number; at: string }>>();
  holds<Same<Jsonify<Json>, Json>>();
  holds<Same<Jsonify<[Date, undefined]>, [string, null]>>();
  holds<Same<Jsonify<Date | number>, string | number>>();
  holds<Same<Jsonify<{ a: bigint }>["a"], never>>();
  const client = createWorkflowClient({ apiKey: "es_test" });
  const calls = [
    async () => {
      await client.start(ship, { order: 1 });
      // @ts-expect-error: the input is checked.
      await client.start(ship, { order: "1" });
      await client.start("anything", 5);
      const run = await client.runs.get(ship, "id");
      holds<Same<typeof run.output, { order: number; at: string } | null>>();
      const ended = await client.runs.wait(ship, "id");
      ended.output.order;
      await client.subscriptions.create("order.*", { type: "workflow", name: ship.name, filter: { plan: "pro" } });
      // @ts-expect-error: a subscription has a target.
      await client.subscriptions.create("order.*", { name: "ship" });
      const shipped = await client.events.get<{ order: number }>("id");
      holds<Same<typeof shipped.data, { order: number }>>();
      for (const result of shipped.results) if (result.type === "failed") result.message.toUpperCase();
      const other = await client.runs.get("ship", "id");
      holds<Same<typeof other.output, unknown>>();
      const tested = await runTest(ship, { input: { order: 1 } });
      tested.output?.at.toUpperCase();
      // @ts-expect-error: the input of a test is checked.
      await runTest(ship, { input: {} });
      // @ts-expect-error: a property that it does not have is a slip.
      await runTest(ship, { input: { order: 1, ordre: 2 } });
    },
    () =>
      workflow({
        name: "parent",
        run: async (ctx) => {
          const shipped = await ctx.step.call("ship", ship, { order: 1 });
          holds<Same<typeof shipped, { order: number; at: string }>>();
          // @ts-expect-error: the input of a child is checked.
          await ctx.step.call("again", ship, {});
        },
      }),
  ];
  client.close();
  assert.equal(calls.length, 2);
});
