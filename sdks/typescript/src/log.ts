// Log lines of workflows and steps.

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
