// The page's model of a run against the server's.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "vitest";
import type { Heads, Run, Steps } from "../src/api/types";
import { statusOf } from "../src/features/run/model/fold";
import { RunModel } from "../src/features/run/model/runModel";
import type { Api } from "./harness/api";
import { scenario } from "./harness/scenario";
import { chain, script, ticket, wait } from "./harness/workflows";

const SHAPES = resolve(import.meta.dirname, "../../examples/shapes");

/** The statuses of all steps, as the server shows them. */
async function stepsOf(api: Api, run: string): Promise<Record<string, string>> {
  const { steps } = await api.ask<Steps>("GET", `/v1/runs/${run}/steps?limit=500`);
  return Object.fromEntries(steps.map((step) => [step.key, step.status]));
}

scenario("the_model_of_the_page_has_the_statuses_of_the_server", async ({ api }) => {
  const definitions: Record<string, unknown> = {
    waiting: chain(script("first", "return 1"), wait("gate", "go"), script("last", "return 2")),
    broken: chain(script("fall", `throw new Error("no")`, { retry: { maxAttempts: 2, baseMs: 100 } })),
    machine: ticket,
  };
  for (const file of readdirSync(SHAPES)) {
    const { name, ...shape } = JSON.parse(readFileSync(join(SHAPES, file), "utf8"));
    definitions[String(name).replaceAll("_", "-")] = shape;
  }
  expect(Object.keys(definitions).length).toBeGreaterThan(12);
  for (const [name, definition] of Object.entries(definitions)) {
    await api.save(name, definition);
    const id = await api.start(name);
    const isOpen = name === "waiting" || name === "machine";
    if (isOpen) await api.reaches(id, "waiting");
    else await api.ask("GET", `/v1/runs/${id}?waitSeconds=30`);
    const run = await api.ask<Run>("GET", `/v1/runs/${id}`);
    const { entries } = await api.ask<Heads>("GET", `/v1/runs/${id}/journal?view=heads&limit=10000`);
    const model = new RunModel();
    expect(model.append(entries), `${name}: no entry is missing`).toBe(true);
    const known = Object.fromEntries([...model.fold.steps].map(([key, step]) => [key, step.status]));
    expect(known, name).toEqual(await stepsOf(api, id));
    expect(statusOf(model.fold), name).toBe(run.status);
    // The fold at an entry is the fold of the entries up to it, whatever came later.
    for (const { seq } of entries) {
      const part = new RunModel();
      part.append(entries.slice(0, seq));
      expect([...model.at(seq).steps], `${name} at ${seq}`).toEqual([...part.fold.steps]);
    }
  }
});
