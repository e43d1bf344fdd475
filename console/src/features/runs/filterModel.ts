// The filter of the list of runs: as the URL, as a text that a person writes, as a query of the API, as a body of a bulk
// request.
//
// A filter is a list of terms in the order of the URL. Terms of one name replace each other.

import { isRunStatus } from "../../lib/status";
import { parseMoment } from "../../ui";

export interface Term {
  name: string;
  value: string;
}

/** Names that every server knows. */
const BASIC = ["workflow", "status", "version", "parent", "since", "until"] as const;
/** Names that a server with the console's routes knows. */
const ADDED = ["state", "key", "errorCode", "origin", "trigger", "text"] as const;
export const FILTER_NAMES: readonly string[] = [...BASIC, ...ADDED];

export function isFilterName(name: string): boolean {
  return FILTER_NAMES.includes(name) || /^(input|tag)\../.test(name);
}

export function termsFromParams(params: URLSearchParams): Term[] {
  return [...params]
    .filter(([name, value]) => isFilterName(name) && value !== "")
    .map(([name, value]) => ({ name, value }));
}

/** The text of a filter: `status:failed input.order.id:7 workflow:"my flow"`. */
export function termsToText(terms: readonly Term[]): string {
  return terms.map(({ name, value }) => `${name}:${/[\s"]/.test(value) ? JSON.stringify(value) : value}`).join(" ");
}

export type ParsedText = { ok: true; terms: Term[] } | { ok: false; wrong: string };

/** Reads the text of a filter. A word without a name is the beginning of an id, or the name of a workflow. */
export function textToTerms(text: string): ParsedText {
  const terms: Term[] = [];
  const pattern = /\s*(?:([A-Za-z][\w.$-]*):)?("(?:[^"\\]|\\.)*"|[^\s"]+)/gy;
  let end = 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    end = pattern.lastIndex;
    const name = match[1] ?? "text";
    const value = unquote(match[2] ?? "");
    if (!isFilterName(name)) return { ok: false, wrong: name };
    if (name === "status" && !value.split(",").every(isRunStatus)) return { ok: false, wrong: value };
    terms.push({ name, value });
  }
  const rest = text.slice(end).trim();
  return rest === "" ? { ok: true, terms: lastOfEach(terms) } : { ok: false, wrong: rest };
}

function unquote(text: string): string {
  if (!text.startsWith('"')) return text;
  try {
    return String(JSON.parse(text));
  } catch {
    return text.slice(1, -1);
  }
}

function lastOfEach(terms: readonly Term[]): Term[] {
  return [...new Map(terms.map((term) => [term.name, term])).values()];
}

export function withTerm(terms: readonly Term[], name: string, value: string | null): Term[] {
  const others = terms.filter((term) => term.name !== name);
  return value === null || value === "" ? others : [...others, { name, value }];
}

/** The query of `GET /v1/runs`. A span such as `24h` becomes a time, to the minute, so that the query stays the same. */
export function termsToQuery(terms: readonly Term[], now: number): string {
  const params = new URLSearchParams();
  for (const { name, value } of terms) params.append(name, isTime(name) ? toTime(value, now) : value);
  return params.toString();
}

const isTime = (name: string) => name === "since" || name === "until";

function toTime(value: string, now: number): string {
  if (!/^\d+[smhd]$/.test(value)) return value;
  const minute = Math.floor(now / 60_000) * 60_000;
  return new Date(parseMoment(value, minute) ?? minute).toISOString();
}

/** The filter of `POST /v1/runs/bulk`. */
export function termsToBulk(terms: readonly Term[], now: number): Record<string, unknown> {
  const filter: Record<string, unknown> = {};
  const input: Record<string, string> = {};
  const tags: Record<string, string> = {};
  for (const { name, value } of terms) {
    if (name.startsWith("input.")) input[name.slice("input.".length)] = value;
    else if (name.startsWith("tag.")) tags[name.slice("tag.".length)] = value;
    else if (name === "status") filter.status = value.split(",");
    else if (name === "version") filter.version = Number(value);
    else filter[name] = isTime(name) ? toTime(value, now) : value;
  }
  if (Object.keys(input).length > 0) filter.input = input;
  if (Object.keys(tags).length > 0) filter.tags = tags;
  return filter;
}

/** Which of the new runs the filter may select: as far as a message of the feed tells. */
export function mayMatch(terms: readonly Term[], run: { workflow: string; status: string }): boolean {
  return terms.every(({ name, value }) => {
    if (name === "workflow") return run.workflow === value;
    if (name === "status") return value.split(",").includes(run.status);
    return true;
  });
}
