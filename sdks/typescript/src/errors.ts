// Errors of workflows and of the client. Both entry points export them.

import type { Run } from "./client.js";

/** A step that throws this is not retried. */
export class NonRetriableError extends Error {
  override readonly name: string = "NonRetriableError";
  readonly code: string | undefined;

  constructor(message: string, options: { cause?: unknown; code?: string } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = options.code;
  }
}

/** A step has failed and has no attempt left. Thrown by `ctx.step.run` and `ctx.step.call`; a workflow may catch it. */
export class StepError extends Error {
  override readonly name: string = "StepError";

  constructor(
    readonly step: string,
    readonly code: string,
    message: string,
    readonly attempts: number,
  ) {
    super(message);
  }
}

/** This worker does not have the version that a run was started with. The run goes to another worker. */
export class WorkflowVersionMismatch extends Error {
  override readonly name: string = "WorkflowVersionMismatch";

  constructor(
    readonly workflow: string,
    /** The newest version that this worker serves; 0 if it does not serve the workflow. */
    readonly expected: number,
    /** The version of the run. */
    readonly got: number,
  ) {
    super(
      expected === 0
        ? `this worker does not serve workflow ${workflow}`
        : `this worker serves workflow ${workflow} in version ${expected}, and the run has version ${got}`,
    );
  }
}

/** The function and the journal disagree. The run is paused; resume it after the code is corrected. */
export class NonDeterministicError extends Error {
  override readonly name: string = "NonDeterministicError";
  readonly code = "NONDETERMINISTIC";
}

/** The run of a `wait` call is paused: it does not continue until it is resumed. */
export class RunPausedError extends Error {
  override readonly name: string = "RunPausedError";
  readonly runId: string;
  /** The code of the error that paused the run, such as `NONDETERMINISTIC`; `PAUSED` if a request paused it. */
  readonly code: string;
  /** Why the run is paused. */
  readonly reason: string;

  constructor(
    /** The run when it was found paused. */
    readonly run: Run,
  ) {
    const reason = run.error?.message ?? "a request paused it";
    super(`run ${run.id} is paused: ${reason}; to continue it, run: everstep resume ${run.id}`);
    this.runId = run.id;
    this.code = run.error?.code ?? "PAUSED";
    this.reason = reason;
  }
}

/** The run of a `wait` call did not complete. */
export class RunFailedError extends Error {
  override readonly name: string = "RunFailedError";
  readonly code: string;
  /** The step whose failure ended the run, and the number of its attempts. */
  readonly step: string | undefined;
  readonly attempts: number | undefined;

  constructor(
    readonly runId: string,
    /** `failed` or `cancelled`. */
    readonly status: string,
    error: { code: string; message: string; step?: string; attempts?: number },
  ) {
    super(error.message);
    this.code = error.code;
    this.step = error.step;
    this.attempts = error.attempts;
  }
}

/** A request failed. Programs decide by `code`, which is stable. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";

  constructor(
    /** The HTTP status; 0 if there was no response. */
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly hint: string | undefined = undefined,
    options: { cause?: unknown; details?: Readonly<Record<string, unknown>> } = {},
  ) {
    super(`${code}: ${detail}${hint === undefined ? "" : ` (${hint})`}`, "cause" in options ? { cause: options.cause } : undefined);
    this.details = options.details ?? {};
  }

  /** Further members of the problem document, such as `problems`, or `state` and `versionNo` of a refused transition. */
  readonly details: Readonly<Record<string, unknown>>;
}
