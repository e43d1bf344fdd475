// JSON values: rows of a tree, differences, search, paths as expressions.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonPath = ReadonlyArray<string | number>;

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isContainer(value: unknown): value is Record<string, unknown> | unknown[] {
  return typeof value === "object" && value !== null;
}

/** The text of a value, indented. Never throws. */
export function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? "";
}

/** A value in one line, cut after so many letters. */
export function summarize(value: unknown, length = 80): string {
  const text = JSON.stringify(value) ?? "";
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

/** A part of a long text, with its number of lines. */
export interface TextPart {
  text: string;
  lines: number;
}

/** Splits a text into parts of about `length` letters: at the end of a line, or inside a line that is longer. */
export function textParts(text: string, length = 4_000): TextPart[] {
  const parts: TextPart[] = [];
  for (let begin = 0; begin < text.length; ) {
    const part = text.slice(begin, begin + 2 * length);
    const lineEnd = part.indexOf("\n", length) + 1;
    // A letter of two code units is not divided.
    const isPair = (part.codePointAt(length - 1) ?? 0) > 0xffff;
    const end = part.length <= length ? part.length : lineEnd || length + (isPair ? 1 : 0);
    const own = part.slice(0, end);
    parts.push({ text: own, lines: own.split("\n").length });
    begin += end;
  }
  return parts;
}

export function size(value: unknown): number {
  return Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 0;
}

/** A path as an expression reads it: `ctx.order["first name"].lines[0]`. */
export function pathExpression(root: string, path: JsonPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return /^[A-Za-z_]\w*$/.test(part) ? `${text}.${part}` : `${text}[${JSON.stringify(part)}]`;
  }, root);
}

/** A row of a JSON tree. */
export interface JsonRow {
  id: string;
  path: JsonPath;
  depth: number;
  name: string | number | null;
  value: unknown;
  isContainer: boolean;
  isOpen: boolean;
  matches: boolean;
}

/** Entries of one container that are shown at first. */
export const CHILDREN_MAX = 500;

export function rowId(path: JsonPath): string {
  return JSON.stringify(path);
}

/**
 * The rows of a tree in display order. `open` says which containers are open; while there is a search text, exactly the
 * containers around matches are.
 */
export function jsonRows(value: unknown, open: (id: string, depth: number) => boolean, search = ""): JsonRow[] {
  const rows: JsonRow[] = [];
  const needle = search.trim().toLowerCase();
  const visit = (node: unknown, path: JsonPath, name: string | number | null): boolean => {
    const container = isContainer(node);
    const ownMatch = needle !== "" && matches(name, node, needle);
    const id = rowId(path);
    const at = rows.length;
    const row: JsonRow = {
      id,
      path,
      depth: path.length,
      name,
      value: node,
      isContainer: container,
      isOpen: false,
      matches: ownMatch,
    };
    rows.push(row);
    let inside = false;
    if (container && (needle !== "" || open(id, path.length))) {
      row.isOpen = true;
      for (const [child, inner] of children(node)) {
        if (visit(inner, [...path, child], child)) inside = true;
      }
    }
    if (needle === "" || ownMatch || inside) return true;
    rows.length = at;
    return false;
  };
  visit(value, [], null);
  return rows;
}

function children(node: Record<string, unknown> | unknown[]): Array<[string | number, unknown]> {
  const all: Array<[string | number, unknown]> = Array.isArray(node)
    ? node.map((value, index) => [index, value])
    : Object.entries(node);
  return all.slice(0, CHILDREN_MAX);
}

function matches(name: string | number | null, node: unknown, needle: string): boolean {
  if (name !== null && String(name).toLowerCase().includes(needle)) return true;
  return !isContainer(node) && String(node).toLowerCase().includes(needle);
}

/** One difference between two values. */
export interface Difference {
  path: JsonPath;
  kind: "added" | "removed" | "changed";
  before?: unknown;
  after?: unknown;
}

/** The differences between two values, by path, at most `limit`. */
export function compare(before: unknown, after: unknown, limit = 500): Difference[] {
  const found: Difference[] = [];
  // The path of the visited member. It is copied for a difference only: most members of large values are equal.
  const path: Array<string | number> = [];
  const visit = (left: unknown, right: unknown) => {
    if (found.length >= limit || Object.is(left, right)) return;
    if (isObject(left) && isObject(right)) {
      for (const name of Object.keys(left)) visitMember(left, right, name);
      for (const name of Object.keys(right)) if (!Object.hasOwn(left, name)) visitMember(left, right, name);
    } else if (Array.isArray(left) && Array.isArray(right)) {
      const length = Math.max(left.length, right.length);
      for (let index = 0; index < length; index += 1) visitMember(left, right, index);
    } else {
      found.push({ path: [...path], kind: "changed", before: left, after: right });
    }
  };
  const visitMember = (left: object, right: object, name: string | number) => {
    path.push(name);
    if (!Object.hasOwn(left, name)) found.push({ path: [...path], kind: "added", after: Reflect.get(right, name) });
    else if (!Object.hasOwn(right, name))
      found.push({ path: [...path], kind: "removed", before: Reflect.get(left, name) });
    else visit(Reflect.get(left, name), Reflect.get(right, name));
    path.pop();
  };
  visit(before, after);
  return found.slice(0, limit);
}

export type Parsed = { ok: true; value: unknown } | { ok: false; message: string };

/** Parses JSON that a person wrote. An empty text is null. */
export function parseJson(text: string): Parsed {
  if (text.trim() === "") return { ok: true, value: null };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}
