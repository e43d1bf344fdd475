// A worker of the TypeScript SDK, from its sources, in the process of the scenarios.

import { resolve } from "node:path";
import type { Api } from "./api";

const SDK = resolve(import.meta.dirname, "../../../sdks/typescript/src/index.ts");

/** The part of the context of a function that scenarios use. */
export interface CodeContext {
  step: {
    run<Output>(name: string, work: () => Output | Promise<Output>): Promise<Output>;
    waitForEvent(name: string, options: { event: string }): Promise<unknown>;
  };
  log: { info: (line: string) => void };
}

interface Sdk {
  workflow(definition: { name: string; run: (ctx: CodeContext, input: unknown) => Promise<unknown> }): {
    serve(options: { url: string; apiKey: string; worker: string; logger: false }): {
      ready: Promise<void>;
      stop: () => Promise<void>;
    };
  };
}

/** The parts of a message of the server that `serveStep` processes. */
interface Message {
  m: number;
  turns?: { run: string; turn: number }[];
  refused?: unknown[];
}

export const WORKER_NAME = "worker of the scenario";
/** How long the server holds a poll at most. */
const POLL_WAIT_MS = 500;

/**
 * Serves a workflow whose runs have one step, by the worker protocol: a worker may give a step any name, while the SDK
 * allows few letters. Returns how to stop.
 */
export async function serveStep(api: Api, name: string, step: string, worker: string): Promise<() => Promise<void>> {
  const hello = { protocol: 1, worker, capacity: 10, workflows: [{ name, version: 1 }] };
  const { session } = await api.ask<{ session: string }>("POST", "/v1/worker/sessions", hello);
  let isStopped = false;
  let [seen, sent] = [0, 0];
  const perform = async () => {
    const poll = { session, seen, waitMs: POLL_WAIT_MS };
    const { messages } = await api.ask<{ messages: Message[] }>("POST", "/v1/worker/poll", poll);
    for (const { m, turns = [], refused = [] } of messages) {
      seen = m;
      if (refused.length > 0) throw new Error(`the server refuses reports: ${JSON.stringify(refused)}`);
      for (const { run, turn } of turns) {
        const reports = [
          { n: sent + 1, run, turn, kind: "completed", step, attempt: 1, output: 1 },
          { n: sent + 2, run, turn, kind: "returned", output: null },
        ];
        sent += reports.length;
        // The next poll repeats the answers.
        await api.ask("POST", "/v1/worker/reports", { session, seen, reports });
      }
    }
  };
  const serving = (async () => {
    while (!isStopped) await perform();
  })();
  // A failure is reported by the function that stops the worker.
  serving.catch(() => undefined);
  return async () => {
    isStopped = true;
    await serving;
    await api.ask("DELETE", `/v1/worker/sessions/${session}`);
  };
}

/** Serves a function as a workflow. Returns how to stop. */
export async function serve(
  api: Api,
  name: string,
  run: (ctx: CodeContext, input: unknown) => Promise<unknown>,
  worker = WORKER_NAME,
): Promise<() => Promise<void>> {
  const sdk = (await import(SDK)) as Sdk;
  const options = { url: api.url, apiKey: api.key, worker, logger: false } as const;
  const serving = sdk.workflow({ name, run }).serve(options);
  await serving.ready;
  return () => serving.stop();
}
