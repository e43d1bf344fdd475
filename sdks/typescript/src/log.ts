// Log lines of workers, workflows and steps.

import type { Logger } from "./types.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** Bytes of the lines of one attempt. */
const LOG_BYTES_MAX = 64 * 1024;
const CUT_MARK = "… cut: a step keeps at most 64 KiB of log";

/** The lines of one attempt of a step. */
export class LogLines {
  readonly kept: string[] = [];
  private bytesLeft = LOG_BYTES_MAX - CUT_MARK.length - 8;
  private isCut = false;

  add(line: string): void {
    if (this.isCut) return;
    const bytes = Buffer.byteLength(line) + 1;
    if (bytes > this.bytesLeft) {
      this.isCut = true;
      this.kept.push(CUT_MARK);
      return;
    }
    this.bytesLeft -= bytes;
    this.kept.push(line);
  }
}

/** A line of text: the level, the message, and the fields as JSON. */
export function formatLine(level: LogLevel, message: string, fields: object | undefined): string {
  if (fields === undefined) return `${level} ${message}`;
  try {
    return `${level} ${message} ${JSON.stringify(fields)}`;
  } catch {
    return `${level} ${message} (its fields cannot be written as JSON)`;
  }
}

/** The default logger of a worker: one line on standard error, and below it the stack if there is one. */
export const stderrLogger: Logger = {
  debug: (message, fields) => writeRecord("debug", message, fields),
  info: (message, fields) => writeRecord("info", message, fields),
  warn: (message, fields) => writeRecord("warn", message, fields),
  error: (message, fields) => writeRecord("error", message, fields),
};

function writeRecord(level: LogLevel, message: string, fields: object | undefined): void {
  // The console is used because `process.stderr.write` would end the process when standard error is closed.
  console.error(formatRecord(new Date(), level, message, fields));
}

/** Time, level, message and fields in one line, and a field `stack` in lines of its own. */
export function formatRecord(time: Date, level: LogLevel, message: string, fields: object = {}): string {
  let line = `${time.toISOString()} ${level} ${String(message).replace(/\s*\n\s*/g, " ")}`;
  let stack = "";
  for (const [name, value] of Object.entries(fields)) {
    if (name === "stack" && typeof value === "string") stack = value.replace(/^/gm, "    ");
    else if (value !== undefined) line += ` ${name}=${formatValue(value)}`;
  }
  return stack === "" ? line : `${line}\n${stack}`;
}

function formatValue(value: unknown): string {
  if (typeof value === "string" && /^[\w.:/@+-]+$/.test(value)) return value;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return "(not JSON)";
  }
}
