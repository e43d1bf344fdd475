// Starts and waits of many callers, which the client gathers into few requests.

import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiError, createWorkflowClient, type WorkflowClient } from "../src/client.js";

/** A server that streams: `respond` writes the response itself. */
async function withStreams(respond: (url: string, body: string, response: ServerResponse) => void, body: (client: WorkflowClient, urls: string[]) => Promise<void>): Promise<void> {
  const urls: string[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    urls.push(request.url ?? "");
    respond(request.url ?? "", text, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = createWorkflowClient({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, apiKey: "es_test" });
  try {
    await body(client, urls);
  } finally {
    client.close();
    server.closeAllConnections();
    server.close();
  }
}

const json = (response: ServerResponse, status: number, document: object) => void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(document));
const runId = (n: number) => `01990000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const ended = (id: string, output: unknown = id, workflow = "w") => ({ id, workflow, status: "completed", output, error: null, waitingFor: null });

/** Calls the first start alone, and the others while it is in flight. */
async function firstThenOthers<Value, Result>(values: Value[], start: (value: Value) => Promise<Result>): Promise<Promise<Result>[]> {
  const [first, ...others] = values;
  const started = start(first as Value);
  await new Promise(setImmediate);
  return [started, ...others.map(start)];
}

test("starts that are called one after the other are sent together", () =>
  withStreams(
    (_url, body, response) => {
      const { runs } = JSON.parse(body) as { runs: { input: number }[] };
      json(response, 201, { runs: runs.map(({ input }) => ({ id: `r${input}`, created: true, status: "running" })) });
    },
    async (client, urls) => {
      const results = await Promise.all([1, 2, 3].map((n) => client.start("w", n)));
      assert.deepEqual(results.map(({ runId }) => runId), ["r1", "r2", "r3"]);
      assert.deepEqual(urls, ["/v1/workflows/w/runs/batch"]);
    },
  ));

test("starts that are called while one is in flight are sent together, each with its own result", () =>
  withStreams(
    (url, body, response) => {
      if (url.endsWith("/runs")) return void setTimeout(() => json(response, 201, { run: { id: "first", status: "running" }, created: true }), 10);
      const { runs } = JSON.parse(body) as { runs: { input: number }[] };
      const results = runs.map(({ input }) => (input === 13 ? { error: { status: 422, code: "VALIDATION_ERROR", detail: "unlucky" } } : { id: `r${input}`, created: true, status: "pending" }));
      json(response, 207, { runs: results, warning: "no worker" });
    },
    async (client, urls) => {
      const starts = await firstThenOthers(Array.from({ length: 20 }, (_, n) => n), (n) => client.start("w", n));
      const results = await Promise.allSettled(starts);
      assert.deepEqual(urls, ["/v1/workflows/w/runs", "/v1/workflows/w/runs/batch"]);
      results.forEach((result, n) => {
        if (n === 0) assert.deepEqual(result, { status: "fulfilled", value: { runId: "first", created: true, status: "running" } });
        else if (n === 13) assert.ok(result.status === "rejected" && result.reason instanceof ApiError && result.reason.status === 422 && result.reason.detail === "unlucky");
        else assert.deepEqual(result, { status: "fulfilled", value: { runId: `r${n}`, created: true, status: "pending", warning: "no worker" } });
      });
      // Keys, versions and workflows are not mixed.
      urls.length = 0;
      await Promise.all([client.start("w", 1), client.start("x", 1), client.start("w", 1, { version: 2 }), client.start("w", 1, { idempotencyKey: "k" })]);
      assert.deepEqual(urls.sort(), ["/v1/workflows/w/runs", "/v1/workflows/w/runs", "/v1/workflows/w/runs", "/v1/workflows/x/runs"]);
    },
  ));

test("starts are sent one by one if the server refuses a batch, and again if it asks for that", () =>
  withStreams(
    (url, body, response) => {
      const { input } = (body === "" ? {} : JSON.parse(body)) as { input?: number };
      if (url.endsWith("/batch")) {
        const { runs } = JSON.parse(body) as { runs: { input: number }[] };
        if (runs.some((run) => run.input < 0)) return json(response, 403, { status: 403, code: "PERMISSION_DENIED", detail: "no batches" });
        return json(response, 207, { runs: runs.map((run) => (run.input % 2 === 0 ? { error: { status: 503, code: "UNAVAILABLE", detail: "busy" } } : { id: `r${run.input}`, created: false })) });
      }
      // The status of a run that exists is read.
      if (body === "") return json(response, 200, { id: url.split("/").at(-1), status: "running" });
      setTimeout(() => json(response, 200, { run: { id: `r${input}`, status: "running" }, created: input === undefined || input >= 0 }), 5);
    },
    async (client, urls) => {
      const refused = await Promise.all(await firstThenOthers([1, -2, -3], (n) => client.start("w", n)));
      assert.deepEqual(refused.map(({ runId, created }) => [runId, created]), [["r1", true], ["r-2", false], ["r-3", false]]);
      // The refusal is remembered.
      await Promise.all([1, -2, -3].map((n) => client.start("w", n)));
      assert.equal(urls.filter((url) => url.endsWith("/batch")).length, 1);
      urls.length = 0;
      const busy = await Promise.all(await firstThenOthers([1, 2, 3], (n) => client.start("x", n)));
      assert.deepEqual(busy.map(({ runId, status }) => [runId, status]), [["r1", "running"], ["r2", "running"], ["r3", "running"]]);
      // The third start has a run: it is read, and not started again.
      assert.deepEqual(urls.sort(), ["/v1/workflows/x/runs", "/v1/workflows/x/runs", "/v1/workflows/x/runs/batch", "/v1/workflows/x/runs/r3"]);
    },
  ));

test("a start of a run that exists has the status of the response to the batch: no permission to read runs is needed", () =>
  withStreams(
    (url, body, response) => {
      if (body === "") return json(response, 403, { status: 403, code: "PERMISSION_DENIED", detail: "the key may not read runs" });
      if (!url.endsWith("/batch")) return void setTimeout(() => json(response, 201, { run: { id: "first", status: "running" }, created: true }), 5);
      const { runs } = JSON.parse(body) as { runs: unknown[] };
      json(response, 200, { runs: runs.map((_, n) => ({ id: `r${n}`, created: false, status: "completed" })) });
    },
    async (client, urls) => {
      const [, ...rest] = await Promise.all(await firstThenOthers([1, 2, 3], (n) => client.start("w", n, { idempotencyKey: `k${n}` })));
      assert.deepEqual(rest, [0, 1].map((n) => ({ runId: `r${n}`, created: false, status: "completed" })));
      assert.deepEqual(urls, ["/v1/workflows/w/runs", "/v1/workflows/w/runs/batch"]);
    },
  ));

test("a batch of an older server, without statuses, starts each run once", () => {
  let started = 0;
  return withStreams(
    (url, body, response) => {
      if (url.endsWith("/batch")) {
        const { runs } = JSON.parse(body) as { runs: unknown[] };
        return json(response, 200, { runs: runs.map(() => ({ id: `r${++started}`, created: true })) });
      }
      if (body === "") return json(response, 200, { id: url.split("/").at(-1), status: "completed" });
      started += 1;
      setTimeout(() => json(response, 201, { run: { id: "first", status: "running" }, created: true }), 5);
    },
    async (client) => {
      const all = await Promise.all(await firstThenOthers(Array.from({ length: 10 }, (_, n) => n), (n) => client.start("w", n)));
      assert.equal(started, 10);
      assert.deepEqual(all.slice(1).map(({ created, status }) => [created, status]), Array.from({ length: 9 }, () => [true, "completed"]));
      assert.equal(new Set(all.map(({ runId }) => runId)).size, 10);
    },
  );
});

test("many waits share a request, and each has its own result", () =>
  withStreams(
    (url, _body, response) => {
      const ids = new URL(url, "http://x").searchParams.get("ids")?.split(",");
      if (ids === undefined) return void setTimeout(() => json(response, 200, ended(url.split("/").at(-1)?.split("?")[0] ?? "", "alone")), 20);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`event: waiting\ndata: {"runs":${ids.length}}\n\n`);
      const events = ids.map((id) => {
        if (id === runId(3)) return `event: run\ndata: ${JSON.stringify({ ...ended(id), status: "failed", error: { code: "BROKEN", message: "no" } })}\n\n`;
        if (id === runId(4)) return `event: unreadable\ndata: ${JSON.stringify({ id, error: { status: 404, code: "NOT_FOUND", detail: "no" } })}\n\n`;
        if (id === runId(5)) return `event: run\ndata: ${JSON.stringify(ended(id, id, "other"))}\n\n`;
        return `event: run\ndata: ${JSON.stringify(ended(id))}\n\n`;
      });
      // An event may arrive in parts.
      const text = events.join("");
      response.write(text.slice(0, 50));
      setTimeout(() => response.end(text.slice(50)), 10);
    },
    async (client, urls) => {
      const waits = Array.from({ length: 50 }, (_, n) => client.runs.wait("w", runId(n)));
      const results = await Promise.allSettled(waits);
      results.forEach((result, n) => {
        if (n === 3) assert.ok(result.status === "rejected" && result.reason.code === "BROKEN");
        // Alone: the first wait, and those whose run is not one of the workflow.
        else assert.equal(result.status === "fulfilled" && result.value.output, n === 0 || n === 4 || n === 5 ? "alone" : runId(n));
      });
      assert.ok(urls.length < 12, `${urls.length} requests`);
    },
  ));

test("waits that are called while a request is open are gathered, if runs take long", () => {
  const held = runId(500);
  return withStreams(
    (url, _body, response) => {
      const ids = new URL(url, "http://x").searchParams.get("ids")?.split(",");
      // The first wait is requested alone and does not end.
      if (ids === undefined) return;
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`event: waiting\ndata: {"runs":${ids.length}}\n\n`);
      setTimeout(() => {
        for (const id of ids) if (id !== held) response.write(`event: run\ndata: ${JSON.stringify(ended(id))}\n\n`);
        if (!ids.includes(held)) response.end();
      }, 150);
    },
    async (client, urls) => {
      client.runs.wait("w", runId(1_000)).catch(() => {});
      // The client learns how long runs take.
      await Promise.all(Array.from({ length: 150 }, (_, n) => client.runs.wait("w", runId(n))));
      // A request is open when the next waits are called.
      const last = client.runs.wait("w", runId(499));
      client.runs.wait("w", held).catch(() => {});
      await last;
      await Promise.all([client.runs.wait("w", runId(501)), client.runs.wait("w", runId(502))]);
      const requests = urls.filter((url) => url.includes(runId(501)) || url.includes(runId(502)));
      assert.deepEqual(requests, [`/v1/runs/wait?waitSeconds=30&ids=${runId(501)},${runId(502)}`]);
    },
  );
});

test("waits are sent one by one if a proxy withholds streams, or the server has none", () =>
  withStreams(
    (url, _body, response) => {
      if (url.includes("ids=")) return json(response, 404, { status: 404, code: "NOT_FOUND", detail: "run \"wait\" was not found" });
      json(response, 200, ended(url.split("/").at(-1)?.split("?")[0] ?? ""));
    },
    async (client, urls) => {
      const runs = await Promise.all(Array.from({ length: 5 }, (_, n) => client.runs.wait("w", runId(n))));
      assert.deepEqual(runs.map((run) => run.output), Array.from({ length: 5 }, (_, n) => runId(n)));
      await Promise.all([client.runs.wait("w", runId(6)), client.runs.wait("w", runId(7))]);
      assert.equal(urls.filter((url) => url.includes("ids=")).length, 1);
    },
  ));

test("a proxy that withholds streams is recognised, and an id in another notation is requested alone", () =>
  withStreams(
    (url, _body, response) => {
      // A response that ends passes the proxy.
      if (url.includes("waitSeconds=0&ids=")) return void response.writeHead(200, { "content-type": "text/event-stream" }).end('event: waiting\ndata: {"runs":1}\n\n');
      if (url.includes("ids=")) return void response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
      setTimeout(() => json(response, 200, ended(url.split("/").at(-1)?.split("?")[0] ?? "")), 10);
    },
    async (client, urls) => {
      const upper = "0199ABCD-0000-7000-8000-000000000001";
      const runs = await Promise.all([client.runs.wait("w", runId(1)), client.runs.wait("w", upper)]);
      assert.deepEqual([runs[1].output, urls.filter((url) => url.includes("ids=")).length], [upper, 0]);
      const both = await Promise.all([client.runs.wait("w", runId(2)), client.runs.wait("w", runId(3))]);
      assert.deepEqual(both.map((run) => run.output), [runId(2), runId(3)]);
      await Promise.all([client.runs.wait("w", runId(4)), client.runs.wait("w", runId(5))]);
      assert.deepEqual(urls.filter((url) => url.includes("ids=")), [`/v1/runs/wait?waitSeconds=30&ids=${runId(3)}`, `/v1/runs/wait?waitSeconds=0&ids=${runId(3)}`]);
    },
  ));

test("a slow server is not taken for a proxy that withholds streams", () => {
  const streams: ServerResponse[] = [];
  const answer = (ids: string[], response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`event: waiting\ndata: {"runs":1}\n\n${ids.map((id) => `event: run\ndata: ${JSON.stringify(ended(id, "shared"))}\n\n`).join("")}`);
  };
  return withStreams(
    (url, _body, response) => {
      const ids = new URL(url, "http://x").searchParams.get("ids")?.split(",");
      if (ids === undefined) return;
      // The server answers the first request when the client asks why the answer is late, and never that question.
      if (url.includes("waitSeconds=0")) return answer([runId(2), runId(3)], streams[0] as ServerResponse);
      if (streams.push(response) > 1) answer(ids, response);
    },
    async (client, urls) => {
      client.runs.wait("w", runId(1)).catch(() => {});
      const late = await Promise.all([client.runs.wait("w", runId(2)), client.runs.wait("w", runId(3))]);
      assert.deepEqual(late.map((run) => run.output), ["shared", "shared"]);
      assert.equal((await client.runs.wait("w", runId(4))).output, "shared");
      assert.equal(urls.filter((url) => !url.includes("ids=")).length, 1, "only the first wait is requested alone");
    },
  );
});

test("waits with a timeout share a request, and each ends at its own time", () => {
  let closed = 0;
  return withStreams(
    (url, _body, response) => {
      const ids = new URL(url, "http://x").searchParams.get("ids")?.split(",");
      if (ids === undefined) {
        // The first wait is requested alone and does not end.
        if (!url.includes("waitSeconds=0")) return;
        return json(response, 200, { ...ended(url.split("/").at(-1)?.split("?")[0] ?? ""), status: "waiting", output: null, waitingFor: "sleeps at step nap" });
      }
      response.on("close", () => (closed += 1));
      response.writeHead(200, { "content-type": "text/event-stream" });
      const even = ids.filter((id) => Number(id.slice(-1)) % 2 === 0);
      response.write(`event: waiting\ndata: {"runs":${ids.length}}\n\n${even.map((id) => `event: run\ndata: ${JSON.stringify(ended(id))}\n\n`).join("")}`);
      if (even.length === ids.length) response.end();
    },
    async (client, urls) => {
      client.runs.wait("w", runId(100)).catch(() => {});
      const results = await Promise.allSettled(Array.from({ length: 60 }, (_, n) => client.runs.wait("w", runId(n), { timeout: n % 2 === 0 ? "20s" : 300 })));
      results.forEach((result, n) => {
        if (n % 2 === 0) assert.equal(result.status === "fulfilled" && result.value.output, runId(n));
        else assert.ok(result.status === "rejected" && result.reason.code === "WAIT_TIMEOUT" && /is still waiting: it sleeps at step nap/.test(result.reason.detail));
      });
      const streams = urls.filter((url) => url.includes("ids=")).length;
      assert.ok(streams < 5, `${streams} requests for 60 waits`);
      // The server learns that the waits are over.
      while (closed < streams) await new Promise((resolve) => setImmediate(resolve));
    },
  );
});

test("a response that is no stream, or whose end comes at once, is not repeated", () =>
  withStreams(
    (url, _body, response) => {
      if (!url.includes("ids=")) return void setTimeout(() => json(response, 200, ended(url.split("/").at(-1)?.split("?")[0] ?? "")), 10);
      response.writeHead(200, { "content-type": "text/event-stream" });
      if (url.includes(runId(2))) response.end('event: waiting\ndata: {"runs":1}\n\n');
      else response.end("event: run\ndata: {\n\n");
    },
    async (client, urls) => {
      for (const n of [1, 3]) {
        const both = await Promise.all([client.runs.wait("w", runId(n)), client.runs.wait("w", runId(n + 1))]);
        assert.deepEqual(both.map((run) => run.output), [runId(n), runId(n + 1)]);
      }
      assert.equal(urls.filter((url) => url.includes("ids=")).length, 2);
    },
  ));

test("a wait continues after a response that ended before its run, and ends with its client", () => {
  let requests = 0;
  return withStreams(
    (url, _body, response) => {
      if (!url.includes("ids=")) return;
      requests += 1;
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('event: waiting\ndata: {"runs":1}\n\n');
      if (requests === 1) setTimeout(() => response.end(), 1_100);
      else if (requests === 2) response.end(`event: run\ndata: ${JSON.stringify(ended(runId(2)))}\n\n`);
    },
    async (client) => {
      const first = client.runs.wait("w", runId(1));
      assert.equal((await client.runs.wait("w", runId(2))).output, runId(2));
      assert.equal(requests, 2);
      const third = client.runs.wait("w", runId(3));
      await new Promise((resolve) => setTimeout(resolve, 50));
      const rejected = Promise.all([first, third].map((wait) => assert.rejects(wait, { name: "ApiError" })));
      client.close();
      await rejected;
    },
  );
});
