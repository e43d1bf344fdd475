// Errors that workflows and callers of the API meet. Both entry points share them.

/** Another attempt cannot mend it: a step that throws this is not tried again. */
export class NonRetriableError extends Error {
  override readonly name: string = "NonRetriableError";
  readonly code: string | undefined;

  constructor(message: string, options: { cause?: unknown; code?: string } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = options.code;
  }
}

/** A step has failed for good. Thrown by `ctx.step.run` and `ctx.step.call`; a workflow may catch it. */
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
    /** The newest version that this worker has; 0 if it does not have the workflow. */
    readonly expected: number,
    /** The version of the run. */
    readonly got: number,
  ) {
    super(
      expected === 0
        ? `workflow ${workflow} is not served here`
        : `workflow ${workflow} is served here in version ${expected}, and the run has version ${got}`,
    );
  }
}

/** The function and the journal disagree. The run is paused; resume it once the code is mended. */
export class NonDeterministicError extends Error {
  override readonly name: string = "NonDeterministicError";
  readonly code = "NONDETERMINISTIC";
}

/** A run that was waited for did not complete. */
export class RunFailedError extends Error {
  override readonly name: string = "RunFailedError";
  readonly code: string;
  /** The step that it failed at, and how often that was tried. */
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

/** The server did not do what it was asked for. Programs decide by `code`, which never changes. */
export class ApiError extends Error {
  override readonly name: string = "ApiError";

  constructor(
    /** The HTTP status; 0 when there was no answer. */
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly hint: string | undefined = undefined,
    options: { cause?: unknown } = {},
  ) {
    super(`${code}: ${detail}${hint === undefined ? "" : ` (${hint})`}`, "cause" in options ? options : undefined);
  }
}
