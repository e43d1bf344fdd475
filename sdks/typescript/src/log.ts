// Lines that workflows and steps write.

export type Level = "debug" | "info" | "warn" | "error";

/** Characters that the lines of one attempt have at most. */
const MOST = 64 * 1024;
const CUT = "… cut: a step keeps at most 64 KiB of log";

/** The lines of one attempt of a step. */
export class Lines {
  readonly kept: string[] = [];
  private room = MOST - CUT.length - 8;
  private isCut = false;

  add(line: string): void {
    if (this.isCut) return;
    const bytes = Buffer.byteLength(line) + 1;
    if (bytes > this.room) {
      this.isCut = true;
      this.kept.push(CUT);
      return;
    }
    this.room -= bytes;
    this.kept.push(line);
  }
}

/** A line: its level, its message, its fields as JSON. */
export function describe(level: Level, message: string, fields: object | undefined): string {
  if (fields === undefined) return `${level} ${message}`;
  try {
    return `${level} ${message} ${JSON.stringify(fields)}`;
  } catch {
    return `${level} ${message} (its fields cannot be written as JSON)`;
  }
}
