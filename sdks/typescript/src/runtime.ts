// The entry point for programs that define and serve workflows.

import "./node-version.js";

import { days } from "./duration.js";
import { checkOptions, checkPattern } from "./options.js";
import type { Definition, EventTrigger, JsonInput, WorkflowRef } from "./types.js";
import { serve, type Worker, type WorkerOptions } from "./worker.js";

export { serve } from "./worker.js";
export type { ServedWorkflow, ServeOptions, Worker, WorkerOptions } from "./worker.js";
export * from "./errors.js";
export type { Duration } from "./duration.js";
export type * from "./types.js";

/** A workflow written as code. */
export interface Workflow<Input, Output> extends WorkflowRef<Input, Output> {
  readonly retentionDays: number | undefined;
  readonly inputSchema: Readonly<Record<string, unknown>> | undefined;
  readonly triggers: readonly EventTrigger[] | undefined;
  readonly index: readonly string[] | undefined;
  readonly run: Definition<Input, Output>["run"];
  /** Serves this workflow alone. */
  serve(options?: WorkerOptions): Worker;
}

const WORKFLOW_OPTIONS = { name: true, version: true, retention: true, inputSchema: true, triggers: true, index: true, run: true } as const;
const TRIGGER_OPTIONS = { event: true, match: true } as const;
const TRIGGERS_MAX = 20;
const SEARCH_ATTRIBUTES_MAX = 16;
const WORKFLOW_NAME = /^[a-z0-9][a-z0-9_-]{0,127}$/;

/** Defines a workflow. */
export function workflow<Input, Output>(definition: Definition<Input, Output> & JsonInput<Input>): Workflow<Input, Output> {
  const { name, version = 1, retention, inputSchema, triggers, index, run } = definition;
  if (typeof name !== "string" || !WORKFLOW_NAME.test(name)) {
    throw new TypeError(`a workflow's name has 1 to 128 of a-z, 0-9, _ and -, and begins with a letter or digit: ${JSON.stringify(name)} does not`);
  }
  checkOptions<Definition<Input, Output>>(definition, WORKFLOW_OPTIONS, `workflow ${name}`);
  if (!Number.isInteger(version) || version < 1) throw new TypeError(`the version of ${name} is a whole number from 1, not ${version}`);
  if (typeof run !== "function") throw new TypeError(`workflow ${name} has no function`);
  if (inputSchema !== undefined && (typeof inputSchema !== "object" || inputSchema === null || Array.isArray(inputSchema))) {
    throw new TypeError(`the inputSchema of ${name} is a JSON Schema as an object`);
  }
  if (triggers !== undefined) checkTriggers(triggers, name);
  if (index !== undefined) checkIndex(index, name);
  const retentionDays = retention === undefined ? undefined : days(retention, `the retention of ${name}`);
  const defined: Workflow<Input, Output> = {
    name,
    version,
    retentionDays,
    inputSchema,
    triggers,
    index,
    run,
    serve: (options = {}) => serve({ ...options, workflows: [defined] }),
  };
  return defined;
}

/** Throws unless the search attributes of a workflow are valid. */
function checkIndex(index: readonly string[], name: string): void {
  const isPath = (path: unknown) => typeof path === "string" && path.split(".").every((part) => part !== "");
  if (!Array.isArray(index) || index.length > SEARCH_ATTRIBUTES_MAX || !index.every(isPath)) {
    throw new TypeError(`the index of ${name} is a list of at most ${SEARCH_ATTRIBUTES_MAX} paths of the input, such as "customer" or "order.id"`);
  }
}

/** Throws unless the triggers of a workflow are valid. */
function checkTriggers(triggers: readonly EventTrigger[], name: string): void {
  if (!Array.isArray(triggers) || triggers.length > TRIGGERS_MAX) throw new TypeError(`the triggers of ${name} are a list of at most ${TRIGGERS_MAX}`);
  for (const trigger of triggers as readonly EventTrigger[]) {
    checkOptions(trigger, TRIGGER_OPTIONS, `a trigger of ${name}`);
    checkPattern(trigger.event, `the event of a trigger of ${name}`);
    const { match } = trigger;
    if (match !== undefined && (typeof match !== "object" || match === null || Array.isArray(match))) {
      throw new TypeError(`the match of a trigger of ${name} is an object`);
    }
  }
}
