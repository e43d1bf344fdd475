import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiError, createWorkflowClient, RunPausedError, type WorkflowClient } from "../src/client.js";

interface Asked {
  method: string;
  url: string;
  key: string | undefined;
  body: string;
}
type Answer = [status: number, body: object, headers?: Record<string, string>] | "hang up" | "wait";

/** Runs a test with a client and a server that answers with `answer`. */
async function withServer(answer: (asked: Asked, nth: number) => Answer, body: (client: WorkflowClient, asked: Asked[], url: string) => Promise<void>): Promise<void> {
  const asked: Asked[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    const one = { method: request.method ?? "", url: request.url ?? "", key: request.headers["idempotency-key"] as string | undefined, body: text };
    asked.push(one);
    const said = answer(one, asked.length);
    if (said === "wait") return;
    if (said === "hang up") return void request.socket.destroy();
    response.writeHead(said[0], { "content-type": "application/json", ...said[2] }).end(JSON.stringify(said[1]));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createWorkflowClient({ url, apiKey: "es_test" });
  try {
    await body(client, asked, url);
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
  }
}

/** The time is over, and the server was away. */
const isOver = (error: unknown): boolean => error instanceof ApiError && error.code === "WAIT_TIMEOUT" && error.cause instanceof ApiError;
const unavailable: Answer = [503, { code: "UNAVAILABLE", detail: "not now", status: 503 }];

test("a start sends its options, and returns the response of the server", () =>
  withServer(
    () => [201, { run: { id: "r1", status: "pending" }, created: true, warning: "no worker serves it" }],
    async (client, asked) => {
      const started = await client.start({ name: "ship it", version: 3 }, { a: 1 }, { idempotencyKey: "k", tags: { t: "x" }, retentionDays: 9 });
      assert.deepEqual(started, { runId: "r1", created: true, status: "pending", warning: "no worker serves it" });
      assert.equal(asked[0]?.url, "/v1/workflows/ship%20it/runs");
      assert.deepEqual(JSON.parse(asked[0]?.body ?? ""), { input: { a: 1 }, version: 3, idempotencyKey: "k", retentionDays: 9, tags: { t: "x" }, allowUnserved: true });
      await client.start("ship", undefined);
      assert.deepEqual(JSON.parse(asked[1]?.body ?? ""), { input: null });
    },
  ));

test("a start may begin later", () =>
  withServer(
    () => [201, { run: { id: "r1", status: "pending" }, created: true }],
    async (client, asked) => {
      await client.start("ship", 1, { startAt: new Date("2030-01-01T00:00:00Z") });
      await client.start("ship", 1, { startAt: "2030-01-01T01:00:00+01:00" });
      await client.start("ship", 1, { delaySeconds: 90 });
      assert.deepEqual(
        asked.map(({ body }) => JSON.parse(body)),
        [{ input: 1, startAt: "2030-01-01T00:00:00.000Z" }, { input: 1, startAt: "2030-01-01T00:00:00.000Z" }, { input: 1, delaySeconds: 90 }],
      );
      await assert.rejects(client.start("ship", 1, { startAt: "tomorrow" }), /startAt is "tomorrow"/);
      await assert.rejects(client.start("ship", 1, { startAt: 0, delaySeconds: 1 }), /either startAt or delaySeconds/);
      assert.equal(asked.length, 3);
    },
  ));

test("an event is published, and again only if it has an id", () =>
  withServer(
    ({ url }, nth) => (nth === 1 ? "hang up" : url.includes("wait") ? [200, { id: "e1", topic: "user.signup", created: true, matched: { workflows: 1, queues: 0, http: 0, waits: 2, failed: 0 } }] : [202, { id: "e1", topic: "user.signup", created: true }]),
    async (client, asked) => {
      assert.deepEqual(await client.publish("user.signup", { plan: "pro" }, { id: "s-1", source: "shop", subject: "user 7" }), { id: "e1", topic: "user.signup", created: true });
      assert.deepEqual(
        asked.map(({ method, url, body }) => [method, url, JSON.parse(body)]),
        Array(2).fill(["POST", "/v1/events", { topic: "user.signup", data: { plan: "pro" }, id: "s-1", source: "shop", subject: "user 7" }]),
      );
      const { matched } = await client.publish("user.signup", undefined, { waitSeconds: 5 });
      assert.equal(matched?.waits, 2);
      assert.deepEqual([asked[2]?.url, JSON.parse(asked[2]?.body ?? "")], ["/v1/events?waitSeconds=5", { topic: "user.signup", data: null }]);
      await assert.rejects(client.publish("user.*", 1), /the topic is "user.\*"/);
      await assert.rejects(client.publish("t", 1, { key: "k" } as never), /a publish has no option "key"/);
    },
  ));

test("a publish without an id is not repeated", () =>
  withServer(
    () => "hang up",
    async (client, asked) => {
      await assert.rejects(client.publish("user.signup", 1), { code: "NO_ANSWER" });
      assert.equal(asked.length, 1);
    },
  ));

test("events are read one by one, and in pages", () =>
  withServer(
    ({ url }) => {
      if (url.startsWith("/v1/events/e%2F1")) return [200, { id: "e/1", data: 5, results: [{ type: "run", subscription: "s", run: "r" }], nextCursor: null }];
      return [200, url.includes("cursor=2") ? { events: [{ id: "e1" }], nextCursor: null } : { events: [{ id: "e3" }, { id: "e2" }], nextCursor: "2" }];
    },
    async (client, asked) => {
      const event = await client.events.get<number>("e/1");
      assert.deepEqual([event.data, event.results], [5, [{ type: "run", subscription: "s", run: "r" }]]);
      await client.events.get("e/1", "9");
      const ids: string[] = [];
      for await (const { id } of client.events.list({ topic: "user.signup", since: new Date(0), limit: 2 })) ids.push(id);
      assert.deepEqual(ids, ["e3", "e2", "e1"]);
      const base = "/v1/events?topic=user.signup&since=1970-01-01T00%3A00%3A00.000Z&limit=2";
      assert.deepEqual(asked.map(({ url }) => url), ["/v1/events/e%2F1", "/v1/events/e%2F1?cursor=9", base, `${base}&cursor=2`]);
      asked.length = 0;
      await client.events.replay("e1", "s1", { idempotencyKey: "k", waitSeconds: 3 });
      await client.events.replay("e1", "s1");
      assert.deepEqual(
        asked.map(({ method, url, key, body }) => [method, url, key, body]),
        [
          ["POST", "/v1/events/e1/replay?waitSeconds=3", "k", '{"subscription":"s1"}'],
          ["POST", "/v1/events/e1/replay", undefined, '{"subscription":"s1"}'],
        ],
      );
      assert.throws(() => client.events.list({ source: "x" } as never), /a list of events has no option "source"/);
    },
  ));

test("subscriptions are created, changed, paused and deleted", () =>
  withServer(
    ({ method, url }) => {
      if (method === "DELETE") return [204, {}];
      return [method === "POST" ? 201 : 200, url.endsWith("subscriptions") && method === "GET" ? { subscriptions: [{ id: "s1" }], nextCursor: null } : { id: "s1" }];
    },
    async (client, asked) => {
      await client.subscriptions.create("user.*", { type: "workflow", name: "onboard-user", filter: { plan: "pro" }, input: { email: "{{payload.email}}" } });
      await client.subscriptions.update("s1", { filter: null, version: 3 });
      await client.subscriptions.pause("s1");
      await client.subscriptions.resume("s1");
      await client.subscriptions.get("s1");
      const ids: string[] = [];
      for await (const { id } of client.subscriptions.list()) ids.push(id);
      for await (const { id } of client.subscriptions.list({ pattern: "a/b.#" })) ids.push(id);
      assert.deepEqual(ids, ["s1", "s1"]);
      assert.equal(await client.subscriptions.delete("s1"), undefined);
      assert.deepEqual(
        asked.map(({ method, url, body }) => [method, url, body]),
        [
          ["POST", "/v1/topics/user.*/subscriptions", '{"type":"workflow","name":"onboard-user","filter":{"plan":"pro"},"input":{"email":"{{payload.email}}"}}'],
          ["PATCH", "/v1/subscriptions/s1", '{"filter":null,"version":3}'],
          ["POST", "/v1/subscriptions/s1/pause", ""],
          ["POST", "/v1/subscriptions/s1/resume", ""],
          ["GET", "/v1/subscriptions/s1", ""],
          ["GET", "/v1/subscriptions", ""],
          ["GET", "/v1/topics/a%2Fb.%23/subscriptions", ""],
          ["DELETE", "/v1/subscriptions/s1", ""],
        ],
      );
      await assert.rejects(client.subscriptions.create("user*", { type: "workflow", name: "w" }), /the pattern is "user\*"/);
      await assert.rejects(client.subscriptions.create("t", { type: "workflow", name: "w", topic: "t" } as never), /a subscription has no option "topic"/);
    },
  ));

test("dead letters are read, requeued and discarded", () =>
  withServer(
    ({ method, url }) => {
      if (method === "POST") return [url.endsWith("/requeue") ? 202 : 200, { id: "d1", status: url.endsWith("/requeue") ? "queued" : "discarded" }];
      if (url === "/v1/dead-letters/d%2F1") return [200, { id: "d/1", status: "dead", attempts: [{ code: "HTTP_STATUS", status: 503 }], config: { target: "x" }, secrets: [] }];
      return [200, url.includes("cursor=2") ? { deadLetters: [{ id: "d1" }], nextCursor: null } : { deadLetters: [{ id: "d2" }], nextCursor: "2" }];
    },
    async (client, asked) => {
      const letter = await client.deadLetters.get("d/1");
      assert.deepEqual([letter.attempts[0]?.status, letter.config], [503, { target: "x" }]);
      const ids: string[] = [];
      for await (const { id } of client.deadLetters.list({ status: "dead", workflow: "review", since: new Date(0) })) ids.push(id);
      assert.deepEqual(ids, ["d2", "d1"]);
      assert.equal((await client.deadLetters.requeue("d1")).status, "queued");
      assert.equal((await client.deadLetters.discard("d1", { reason: "old" })).status, "discarded");
      await client.deadLetters.discard("d1");
      const base = "/v1/dead-letters?status=dead&workflow=review&since=1970-01-01T00%3A00%3A00.000Z";
      assert.deepEqual(
        asked.map(({ method, url, body }) => [method, url, body]),
        [
          ["GET", "/v1/dead-letters/d%2F1", ""],
          ["GET", base, ""],
          ["GET", `${base}&cursor=2`, ""],
          ["POST", "/v1/dead-letters/d1/requeue", ""],
          ["POST", "/v1/dead-letters/d1/discard", '{"reason":"old"}'],
          ["POST", "/v1/dead-letters/d1/discard", "{}"],
        ],
      );
      assert.throws(() => client.deadLetters.list({ name: "x" } as never), /a list of dead letters has no option "name"/);
      await assert.rejects(client.deadLetters.discard("d1", { why: "x" } as never), /a discard has no option "why"/);
    },
  ));

test("what the server refuses is an ApiError with code, detail and hint", () =>
  withServer(
    () => [409, { code: "RUN_ENDED", detail: "the run has ended", hint: "start another", status: 409 }],
    async (client) => {
      await assert.rejects(client.runs.cancel("w", "r"), { name: "ApiError", status: 409, code: "RUN_ENDED", detail: "the run has ended", hint: "start another" });
    },
  ));

test("a refused connection asks whether the server runs, and names its address", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const client = createWorkflowClient({ url: `http://user:secret@127.0.0.1:${port}/base/`, apiKey: "es_test" });
  const hint = `is \`everstep serve\` running at http://127.0.0.1:${port}/base? If the server has another address, set url or EVERSTEP_URL`;
  const detail = `POST /v1/workflows/w/runs: connect ECONNREFUSED 127.0.0.1:${port}`;
  await assert.rejects(client.start("w", 1), { code: "NO_ANSWER", hint, message: `NO_ANSWER: ${detail} (${hint})` });
  client.close();
  const unknown = createWorkflowClient({ url: "http://everstep.invalid", apiKey: "es_test" });
  const waits = unknown.runs.wait("w", "r", { timeout: 1 });
  await assert.rejects(waits, { code: "WAIT_TIMEOUT", hint: "check the host in http://everstep.invalid, which is read from url or EVERSTEP_URL" });
  unknown.close();
});

test("a request that is too large names the remedy", async () => {
  const remedy = /^store large values elsewhere.*pass a reference; if a proxy refuses the request, raise its limit of the body \(nginx: client_max_body_size\)$/;
  await withServer(
    ({ url }) => {
      if (url.includes("proxied")) return [413, { html: "too large" }];
      const hint = url.includes("hinted") ? "send less" : undefined;
      return [413, { code: "PAYLOAD_TOO_LARGE", detail: "the body has more than 1064960 bytes", status: 413, hint }];
    },
    async (client) => {
      await assert.rejects(client.start("w", 1), { status: 413, code: "PAYLOAD_TOO_LARGE", hint: remedy });
      await assert.rejects(client.start("proxied", 1), { status: 413, code: "UNEXPECTED_ANSWER", hint: remedy });
      await assert.rejects(client.start("hinted", 1), { status: 413, hint: "send less" });
    },
  );
  // A server that answers before it has read the whole body closes the connection, and the write fails.
  const server = createServer((request) => void request.socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = createWorkflowClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: "es_test" });
  await assert.rejects(client.start("w", "x".repeat(20_000_000)), { code: "NO_ANSWER", hint: /^the request has 20000012 bytes, which may be too large: store large/ });
  await assert.rejects(client.start("w", 1), { code: "NO_ANSWER", hint: undefined });
  client.close();
  server.close();
});

test("a server that is out of reach for a while is asked again", () =>
  withServer(
    (_, nth) => (nth < 3 ? unavailable : [201, { run: { id: "r1" }, created: true }]),
    async (client, asked) => {
      assert.equal((await client.start("w", 1)).runId, "r1");
      assert.equal(asked.length, 3);
    },
  ));

test("a limit is kept: the same is asked when the server says, whether it has a key or not", () =>
  withServer(
    (_, nth) => (nth < 2 ? [429, { code: "RATE_LIMITED", detail: "too many", status: 429 }, { "retry-after": "1" }] : [201, { run: { id: "r1" }, created: true }]),
    async (client, asked) => {
      const began = Date.now();
      assert.equal((await client.start("w", 1)).runId, "r1");
      assert.equal(asked.length, 2);
      assert.ok(Date.now() - began >= 1_000);
    },
  ));

test("a lost answer is asked for again only where that does nothing twice", () =>
  withServer(
    (_, nth) => (nth % 2 === 1 ? "hang up" : [200, { run: { id: "r1" }, created: true, outcome: "accepted" }]),
    async (client, asked) => {
      await client.start("w", 1, { idempotencyKey: "k" });
      assert.equal(asked.length, 2);
      await client.signal("r", "e", {}, { idempotencyKey: "s" });
      assert.deepEqual(asked.slice(2).map((one) => one.key), ["s", "s"]);
      await client.runs.get("w", "r");
      assert.equal(asked.length, 6);
      await assert.rejects(client.start("w", 1), { status: 0, code: "NO_ANSWER" });
      assert.equal(asked.length, 7);
    },
  ));

test("a signal carries its payload, or none", () =>
  withServer(
    () => [200, { outcome: "ignored", reason: "nothing waits for it" }],
    async (client, asked) => {
      assert.deepEqual(await client.signal("r", "a/b", { x: 1 }, { buffer: true }), { outcome: "ignored", reason: "nothing waits for it" });
      await client.signal("r", "e");
      assert.deepEqual(
        asked.map((one) => [one.url, one.body]),
        [
          ["/v1/runs/r/signals/a%2Fb?buffer=true", '{"x":1}'],
          ["/v1/runs/r/signals/e", ""],
        ],
      );
    },
  ));

test("a signal's key arrives whole, whatever it is written in", () =>
  withServer(
    () => [200, { outcome: "accepted" }],
    async (client, asked) => {
      const keys = ["Müller", "Zahlung-✓"];
      for (const idempotencyKey of keys) {
        await client.signal("r", "e", { name: "Jürgen" }, { idempotencyKey });
        await client.signal("r", "e", undefined, { idempotencyKey });
      }
      assert.deepEqual(
        asked.map((one) => Buffer.from(one.key ?? "", "latin1").toString()),
        keys.flatMap((key) => [key, key]),
      );
      assert.equal(asked[0]?.body, '{"name":"Jürgen"}');
      await assert.rejects(client.signal("r", "e", 1, { idempotencyKey: "a\nb" }), { name: "TypeError", message: /the idempotency key is "a\\nb"/ });
    },
  ));

test("the address is read from EVERSTEP_URL, and else from its former name EVERSTEP_SERVER", () =>
  withServer(
    () => [201, { run: { id: "r1", status: "pending" }, created: true }],
    async (_client, _asked, url) => {
      const before = { EVERSTEP_URL: process.env["EVERSTEP_URL"], EVERSTEP_SERVER: process.env["EVERSTEP_SERVER"] };
      const started = async (variables: { EVERSTEP_URL?: string; EVERSTEP_SERVER?: string }) => {
        for (const name of ["EVERSTEP_URL", "EVERSTEP_SERVER"] as const) delete process.env[name];
        Object.assign(process.env, variables);
        const client = createWorkflowClient({ apiKey: "es_test" });
        return (await client.start("w", 1)).runId;
      };
      try {
        assert.equal(await started({ EVERSTEP_SERVER: url }), "r1");
        assert.equal(await started({ EVERSTEP_URL: "", EVERSTEP_SERVER: url }), "r1");
        assert.equal(await started({ EVERSTEP_URL: url, EVERSTEP_SERVER: "http://everstep.invalid" }), "r1");
      } finally {
        for (const [name, value] of Object.entries(before)) {
          if (value === undefined) delete process.env[name];
          else process.env[name] = value;
        }
      }
    },
  ));

test("a key may have white space around it, and nothing that no header takes", () => {
  createWorkflowClient({ apiKey: " es_test\r\n" }).close();
  for (const apiKey of ["es_\ntest", "es_✓"]) {
    assert.throws(() => createWorkflowClient({ apiKey }), (error: Error) => error instanceof TypeError && !error.message.includes(apiKey));
  }
  assert.throws(() => createWorkflowClient({ apiKey: "\n" }), /the API key is missing/);
});

test("half of a surrogate pair in an input or a payload is replaced", () =>
  withServer(
    () => [200, { run: { id: "r1" }, created: true, outcome: "accepted" }],
    async (client, asked) => {
      const cut = { text: "a\u{1f600}".slice(0, 2), whole: "\u{1f600}", literal: "\\ud83d" };
      await client.start("w", cut);
      await client.signal("r", "e", cut);
      const kept = { ...cut, text: "a\ufffd" };
      assert.deepEqual(asked.map((one) => JSON.parse(one.body)), [{ input: kept }, kept]);
    },
  ));

test("waiting asks until the run has ended, and rejects if it has failed or the time is over", () =>
  withServer(
    ({ url }, nth) => {
      if (url.includes("bad")) return [200, { status: "failed", error: { code: "DOWN", message: "no", step: "charge", attempts: 3 } }];
      if (url.includes("slow")) return [200, { status: "waiting", waitingFor: "sleeps at step nap" }];
      return [200, nth < 3 ? { status: "running", waitingFor: null } : { status: "completed", output: 7 }];
    },
    async (client, asked) => {
      assert.equal((await client.runs.wait("w", "good")).output, 7);
      assert.equal(asked[0]?.url, "/v1/workflows/w/runs/good?waitSeconds=30");
      const failed = { name: "RunFailedError", runId: "bad", status: "failed", code: "DOWN", message: "no", step: "charge", attempts: 3 };
      await assert.rejects(client.runs.wait("w", "bad"), failed);
      await assert.rejects(client.runs.wait("w", "slow", { timeout: 20 }), { code: "WAIT_TIMEOUT", detail: /is still waiting: it sleeps at step nap/ });
    },
  ));

test("waiting ends when the run is paused, with the reason, unless it is to wait while the run is paused", () => {
  let times = 0;
  return withServer(
    ({ url }) => {
      const error = url.includes("fickle") ? { code: "NONDETERMINISTIC", message: 'step "b" was requested' } : null;
      const id = url.split("/").at(-1)?.split("?")[0];
      if (url.includes("resumed")) return [200, ++times === 1 ? { id, status: "paused", waitingFor: "is paused", error } : { id, status: "completed", output: 7 }];
      return [200, { id, status: "paused", waitingFor: "is paused since 2026-05-01T12:00:00Z", error }];
    },
    async (client) => {
      await assert.rejects(client.runs.wait("w", "fickle"), (error: unknown) => {
        assert.ok(error instanceof RunPausedError);
        assert.deepEqual([error.name, error.runId, error.run.status], ["RunPausedError", "fickle", "paused"]);
        assert.deepEqual([error.code, error.reason], ["NONDETERMINISTIC", 'step "b" was requested']);
        assert.equal(error.message, 'run fickle is paused: step "b" was requested; to continue it, run: everstep resume fickle');
        return true;
      });
      await assert.rejects(client.runs.wait("w", "held", { timeout: "1m" }), { name: "RunPausedError", code: "PAUSED", reason: "a request paused it" });
      const began = performance.now();
      await assert.rejects(client.runs.wait("w", "held", { timeout: 50, whilePaused: true }), { code: "WAIT_TIMEOUT", detail: /is still paused/ });
      assert.ok(performance.now() - began < 900);
      assert.equal((await client.runs.wait("w", "resumed", { whilePaused: true })).output, 7);
      assert.equal(times, 2);
      assert.ok(performance.now() - began >= 900, "a server that answers at once is not asked without a pause");
    },
  );
});

test("waiting continues while the server cannot be reached, and ends at the timeout or at a final error", () =>
  withServer(
    ({ url }, nth) => {
      if (url.includes("gone")) return [404, { code: "NOT_FOUND", detail: "there is no such run", status: 404 }];
      if (url.includes("never") || nth < 9) return nth % 2 === 0 ? unavailable : "hang up";
      return [200, { status: "completed", output: 7 }];
    },
    async (client, asked, url) => {
      assert.equal((await client.runs.wait("w", "good", { timeout: "1m" })).output, 7);
      assert.equal(asked.length, 9);
      const began = Date.now();
      await assert.rejects(client.runs.wait("w", "never", { timeout: 300 }), isOver);
      assert.ok(Date.now() - began < 1_000);
      await assert.rejects(client.runs.wait("w", "gone"), { status: 404 });
      const secure = createWorkflowClient({ url: url.replace("http:", "https:"), apiKey: "es_test" });
      await assert.rejects(secure.runs.wait("w", "good"), { code: "NO_ANSWER" });
      secure.close();
    },
  ));

test("waiting keeps its time with a server that takes requests and never answers", () =>
  withServer(
    () => "wait",
    async (client, asked) => {
      const began = Date.now();
      const late = new Promise((_, reject) => setTimeout(() => reject(new Error("it waits still")), 8_000).unref());
      const waits = client.runs.wait("w", "r", { timeout: 100 });
      await assert.rejects(Promise.race([waits, late]), isOver);
      assert.ok(Date.now() - began >= 4_900, "the server has time to answer");
      assert.equal(asked.length, 1);
    },
  ));

test("a client that is closed waits no more", () =>
  withServer(
    () => unavailable,
    async (client, asked) => {
      const waits = client.runs.wait("w", "r");
      while (asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      client.close();
      await assert.rejects(waits, { name: "ApiError" });
    },
  ));

test("any number of waits does not delay other calls", () =>
  withServer(
    ({ url }) => (url.includes("waitSeconds") ? "wait" : [201, { run: { id: "r1" }, created: true }]),
    async (client, asked) => {
      for (let i = 0; i < 70; i++) void client.runs.wait("w", `r${i}`, { timeout: 1 }).catch(() => {});
      while (asked.length < 70) await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal((await client.start("w", 1)).runId, "r1");
    },
  ));

test("a transition sends its options and its key, and returns the answer of the server", () =>
  withServer(
    () => [200, { success: true, applied: true, previousState: "review", nextState: "approved", historyId: "h1", isCompleted: true, versionNo: 3 }],
    async (client, asked) => {
      const moved = await client.runs.transition("r/1", "APPROVE", { version: 2, comment: "Müller", data: { amount: 5 }, shown: "d1", idempotencyKey: "k" });
      assert.deepEqual([moved.applied, moved.nextState, moved.versionNo, moved.votes], [true, "approved", 3, undefined]);
      assert.deepEqual([asked[0]?.method, asked[0]?.url, asked[0]?.key], ["POST", "/v1/runs/r%2F1/transitions", "k"]);
      assert.deepEqual(JSON.parse(asked[0]?.body ?? ""), { action: "APPROVE", version: 2, comment: "Müller", data: { amount: 5 }, shown: "d1" });
      await client.runs.transition("r", "APPROVE", { withdraw: true });
      assert.deepEqual([asked[1]?.key, JSON.parse(asked[1]?.body ?? "")], [undefined, { action: "APPROVE", withdraw: true }]);
      await assert.rejects(client.runs.transition("r", "APPROVE", { versionNo: 2 } as never), { name: "TypeError", message: /no option "versionNo"; the options are version/ });
    },
  ));

test("a refused transition shows the state of the run and the person who acted first", () =>
  withServer(
    () => [409, { type: "about:blank", title: "Conflict", status: 409, code: "CONCURRENCY_ERROR", detail: "ann was first", state: "approved", versionNo: 3, lastBy: { kind: "person", id: "ann" } }],
    async (client) => {
      await assert.rejects(client.runs.transition("r", "APPROVE"), (error: unknown) => {
        assert.ok(error instanceof ApiError);
        assert.deepEqual(error.details, { state: "approved", versionNo: 3, lastBy: { kind: "person", id: "ann" } });
        return error.code === "CONCURRENCY_ERROR";
      });
    },
  ));

test("a transition whose answer is lost is repeated only with a key", () =>
  withServer(
    (_, nth) => (nth % 2 === 1 ? "hang up" : [200, { success: true }]),
    async (client, asked) => {
      await client.runs.transition("r", "APPROVE", { idempotencyKey: "k" });
      assert.deepEqual(asked.map((one) => one.key), ["k", "k"]);
      await assert.rejects(client.runs.transition("r", "APPROVE"), { status: 0, code: "NO_ANSWER" });
      assert.equal(asked.length, 3);
    },
  ));

test("actions are those of the caller, and a history is read to its end", () =>
  withServer(
    ({ url }) => {
      if (url.includes("/actions")) return [200, { state: "review", versionNo: 2, actions: [{ action: "APPROVE", open: false, reasons: [{ code: "PERMISSION_DENIED", message: "not you" }] }] }];
      return [200, url.includes("cursor=7") ? { entries: [{ seq: 9 }], nextCursor: null } : { entries: [{ seq: 2 }, { seq: 7 }], nextCursor: "7" }];
    },
    async (client, asked) => {
      const { actions, state } = await client.runs.actions("r1");
      assert.deepEqual([state, actions[0]?.reasons[0]?.code], ["review", "PERMISSION_DENIED"]);
      assert.deepEqual((await client.runs.history("r1")).map((entry) => entry.seq), [2, 7, 9]);
      assert.deepEqual(asked.map((one) => one.url), ["/v1/runs/r1/actions", "/v1/runs/r1/history", "/v1/runs/r1/history?cursor=7"]);
    },
  ));

test("unknown options are refused, and the known ones are named", async () => {
  assert.throws(() => createWorkflowClient({ apiKey: "es_test", baseUrl: "x" } as never), /no option "baseUrl"; the options are url, apiKey/);
  const client = createWorkflowClient({ apiKey: "es_test" });
  await assert.rejects(client.start("w", 1, { key: "k" } as never), { name: "TypeError", message: /no option "key"; the options are idempotencyKey/ });
  await assert.rejects(client.signal("r", "e", 1, { buffered: true } as never), /no option "buffered"/);
  await assert.rejects(client.runs.wait("w", "r", { timeoutMs: 1 } as never), /no option "timeoutMs"; the options are timeout, whilePaused/);
  client.close();
});

test("lists go through all pages, with their filter", () =>
  withServer(
    ({ url }) => [200, url.includes("cursor=c1") ? { runs: [{ id: "r3" }], nextCursor: null } : { runs: [{ id: "r1" }, { id: "r2" }], nextCursor: "c1" }],
    async (client, asked) => {
      const filter = { status: ["failed", "waiting"] as const, since: new Date(0), input: { "order.id": 7 }, tags: { team: "blue" }, limit: 2 };
      const ids: string[] = [];
      for await (const run of client.runs.list("w", filter)) ids.push(run.id);
      assert.deepEqual(ids, ["r1", "r2", "r3"]);
      const query = new URL(asked[1]?.url ?? "", "http://x").searchParams;
      assert.deepEqual(Object.fromEntries(query), {
        status: "failed,waiting",
        since: "1970-01-01T00:00:00.000Z",
        "input.order.id": "7",
        "tag.team": "blue",
        limit: "2",
        cursor: "c1",
      });
      assert.deepEqual((await client.runs.list("w").page()).runs.length, 2);
    },
  ));

test("the light client brings nothing of the runtime along", () => {
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const source = readFileSync(new URL(`../src/${file}`, import.meta.url), "utf8");
    for (const [, name] of source.matchAll(/(?:from|import) "\.\/(.*?)"/g)) visit(name as string);
  };
  visit("client.js");
  assert.deepEqual([...seen].sort(), ["client.js", "duration.js", "errors.js", "gathered-starts.js", "gathered-waits.js", "http.js", "json.js", "node-version.js", "options.js"]);
});
