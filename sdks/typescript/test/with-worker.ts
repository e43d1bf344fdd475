// A worker that is connected to a fake server.

import { test } from "node:test";
import { serve, type Worker, type WorkerOptions } from "../src/runtime.js";
import type { ServedWorkflow } from "../src/worker.js";
import { FakeServer } from "./fake-server.js";

/** Runs a test with a fake server and a worker, over both transports. */
export function withWorker(
  name: string,
  workflows: () => ServedWorkflow[],
  body: (server: FakeServer, worker: Worker) => Promise<void>,
  { prepare, ...options }: WorkerOptions & { prepare?: (server: FakeServer) => void } = {},
): void {
  for (const transport of ["socket", "http"] as const) {
    test(`${name} (${transport})`, async () => {
      const server = new FakeServer();
      await server.listen();
      prepare?.(server);
      const worker = serve({ url: server.url, apiKey: "es_test", logger: false, transport, graceMs: 300, ...options, workflows: workflows() });
      try {
        await worker.ready;
        await body(server, worker);
      } finally {
        await worker.stop().catch(() => {});
        await server.close();
      }
    });
  }
}
