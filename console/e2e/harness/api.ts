// Requests of a scenario to the server, past the page.

import { until } from "./until";

export interface RunDocument {
  id: string;
  status: string;
  version: number;
  output: unknown;
}

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

  run(id: string): Promise<RunDocument> {
    return this.ask("GET", `/v1/runs/${id}`);
  }

  signal(id: string, event: string, payload: unknown = {}): Promise<unknown> {
    return this.ask("POST", `/v1/runs/${id}/signals/${event}`, payload);
  }

  async reaches(id: string, status: string): Promise<RunDocument> {
    let run = await this.run(id);
    await until(`the run to be ${status}; it is ${run.status}`, async () => {
      run = await this.run(id);
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
