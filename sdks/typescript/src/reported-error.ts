// Errors as the journal keeps them.

import type { ReportedError } from "./wire.js";

/** Characters of a message or a stack. */
const TEXT_CHARACTERS_MAX = 8_192;
const CODE_CHARACTERS_MAX = 128;
/** How many causes of an error are reported. */
const CAUSES_MAX = 5;

/** An error as the journal keeps it. Accepts any value, because JavaScript code may throw any value. */
export function reportedError(error: unknown): ReportedError {
  let message = messageOf(error);
  let stack = text(error, "stack") ?? "";
  let cause = causeOf(error);
  const reason = cause === undefined ? "" : reasonOf(cause);
  if (!message.includes(reason)) message += `: ${reason}`;
  for (let depth = 0; cause !== undefined && depth < CAUSES_MAX; depth++) {
    stack += `\ncaused by: ${text(cause, "stack") ?? reasonOf(cause)}`;
    cause = causeOf(cause);
  }
  const reported: ReportedError = { message: message.slice(0, TEXT_CHARACTERS_MAX) };
  const code = text(error, "code");
  if (code !== undefined && code.length <= CODE_CHARACTERS_MAX) reported.code = code;
  if (stack !== "") reported.stack = stack.slice(0, TEXT_CHARACTERS_MAX);
  return reported;
}

/** The message of an error, or of any value that was thrown. */
export function messageOf(error: unknown): string {
  try {
    if (typeof error !== "object" || error === null) return String(error);
    const { message, name } = error as { message?: unknown; name?: unknown };
    const shown = message || (error instanceof Error ? name : error);
    return typeof shown === "string" ? shown : (JSON.stringify(shown) ?? typeof shown);
  } catch {
    return "the value that was thrown cannot be read";
  }
}

/** The message of a cause, with its code. */
function reasonOf(cause: unknown): string {
  const message = messageOf(cause);
  const code = text(cause, "code");
  if (code === undefined || message.includes(code)) return message;
  return text(cause, "message") === undefined ? code : `${code}: ${message}`;
}

export function causeOf(error: unknown): unknown {
  const errors = read(error, "errors");
  return read(error, "cause") ?? (Array.isArray(errors) ? errors[0] : undefined);
}

/** A property that is a text and not empty. */
function text(error: unknown, name: string): string | undefined {
  const value = read(error, name);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function read(error: unknown, name: string): unknown {
  try {
    return (error as Record<string, unknown> | null | undefined)?.[name];
  } catch {
    return undefined;
  }
}
