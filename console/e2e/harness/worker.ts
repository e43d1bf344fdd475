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

/** Serves a function as a workflow. Returns how to stop. */
export async function serve(
  api: Api,
  name: string,
  run: (ctx: CodeContext, input: unknown) => Promise<unknown>,
): Promise<() => Promise<void>> {
  const sdk = (await import(SDK)) as Sdk;
  const options = { url: api.url, apiKey: api.key, worker: "worker of the scenario", logger: false } as const;
  const worker = sdk.workflow({ name, run }).serve(options);
  await worker.ready;
  return () => worker.stop();
}
