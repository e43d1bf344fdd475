// Why a request was not served.

/** A problem document of the server, or a failure to reach it. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | null;
  readonly requestId: string;
  readonly more: Record<string, unknown>;

  constructor(init: {
    status: number;
    code: string;
    detail: string;
    hint?: string | null;
    requestId: string;
    more?: Record<string, unknown>;
  }) {
    super(init.detail);
    this.name = "ApiProblem";
    this.status = init.status;
    this.code = init.code;
    this.hint = init.hint ?? null;
    this.requestId = init.requestId;
    this.more = init.more ?? {};
  }

  /** The permission that the caller lacks. */
  get permission(): string | null {
    if (this.status !== 403) return null;
    return /permission (\S+)/.exec(this.message)?.[1] ?? null;
  }

  /** Whether the same request may succeed later. */
  get isPassing(): boolean {
    return this.code === "UNREACHABLE" || this.status === 429 || this.status >= 500;
  }

  /** Whether the outcome of a changing request is unknown: it may still be written. */
  get isUnknown(): boolean {
    return this.code === "OUTCOME_UNKNOWN" || this.code === "UNREACHABLE";
  }
}

export function toProblem(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiProblem({ status: 0, code: "CONSOLE_ERROR", detail, requestId: "" });
}
