// A worker before a peer.

import { test } from "node:test";
import { serve, type Worker, type WorkerOptions } from "../src/runtime.js";
import type { Served } from "../src/worker.js";
import { Peer } from "./peer.js";

/** Runs a test with a peer and a worker, over both carriers. */
export function withWorker(
  name: string,
  workflows: () => Served[],
  body: (peer: Peer, worker: Worker) => Promise<void>,
  { prepare, ...options }: WorkerOptions & { prepare?: (peer: Peer) => void } = {},
): void {
  for (const transport of ["socket", "http"] as const) {
    test(`${name} (${transport})`, async () => {
      const peer = new Peer();
      await peer.listen();
      prepare?.(peer);
      const worker = serve({ url: peer.url, apiKey: "es_test", logger: false, transport, graceMs: 300, ...options, workflows: workflows() });
      try {
        await worker.ready;
        await body(peer, worker);
      } finally {
        await worker.stop().catch(() => {});
        await peer.close();
      }
    });
  }
}
