// Requests of a scenario to the server, past the page.

import { until } from "./until";

export interface RunDocument {
  id: string;
  status: string;
  version: number;
  output: unknown;
  error: unknown;
}

const ENDED = ["completed", "failed", "cancelled"];
/** Runs that one request starts. */
const BATCH_SIZE = 1_000;

export class Api {
  constructor(
    readonly url: string,
    readonly key: string,
  ) {}

  async ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  }

  save(name: string, definition: unknown): Promise<unknown> {
    return this.ask("PUT", `/v1/workflows/${name}`, definition);
  }

  /** Starts a run, and returns its id. */
  async start(workflow: string, input: unknown = {}): Promise<string> {
    const started = await this.ask<{ run: RunDocument }>("POST", `/v1/workflows/${workflow}/runs`, { input });
    return started.run.id;
  }

  /** Starts many runs, and returns their ids. */
  async startMany(workflow: string, count: number, input: (n: number) => unknown): Promise<string[]> {
    const ids: string[] = [];
    while (ids.length < count) {
      const size = Math.min(BATCH_SIZE, count - ids.length);
      const runs = Array.from({ length: size }, (_, n) => ({ input: input(ids.length + n) }));
      const path = `/v1/workflows/${workflow}/runs/batch`;
      const started = await this.ask<{ runs: { id: string | null }[] }>("POST", path, { runs });
      for (const { id } of started.runs) {
        if (id === null) throw new Error(`POST ${path}: not all runs were started`);
        ids.push(id);
      }
    }
    return ids;
  }

  run(id: string): Promise<RunDocument> {
    return this.ask("GET", `/v1/runs/${id}`);
  }

  signal(id: string, event: string, payload: unknown = {}): Promise<unknown> {
    return this.ask("POST", `/v1/runs/${id}/signals/${event}`, payload);
  }

  /** Waits until a run has a status. Fails at once if it ends with another one. */
  async reaches(id: string, status: string): Promise<RunDocument> {
    let run = await this.run(id);
    await until(`the run ${id} to be ${status}`, async () => {
      run = await this.run(id);
      if (run.status !== status && ENDED.includes(run.status))
        throw new Error(`the run is ${run.status} instead of ${status}: ${JSON.stringify(run.error)}`);
      return run.status === status;
    });
    return run;
  }

  /** A key with one role in the same workspace. */
  async keyFor(role: string): Promise<{ id: string; secret: string }> {
    const made = await this.ask<{ key: { id: string }; secret: string }>("POST", "/v1/keys", { name: role, role });
    return { id: made.key.id, secret: made.secret };
  }
}
