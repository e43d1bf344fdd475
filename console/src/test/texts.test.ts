// The check of scripts/locales.mjs for texts that are not messages.

import { resolve } from "node:path";
import { expect, test } from "vitest";

const SCRIPT = resolve(import.meta.dirname, "../../scripts/jsxTexts.mjs");
const { findTexts } = (await import(SCRIPT)) as { findTexts: (code: string, path: string) => string[] };

/** In the text, `%` is an expression of a template. */
function inJsx(jsx: string): string[] {
  const code = jsx.replaceAll("%", () => ["$", "{n}"].join(""));
  return findTexts(`export const part = (n: Map<string, number>) => ${code};`, "part.tsx");
}

test("texts_beside_expressions_and_in_attributes_are_found", () => {
  expect(inJsx("<p>Plain text</p>")).toEqual(["Plain text"]);
  expect(inJsx("<p>{n} runs <b>{n}</b> of\n  them</p>")).toEqual(["runs", "of them"]);
  expect(inJsx('<p>{"quoted"} {n ? "yes" : t("no")} {n && `about %`}</p>')).toEqual(["quoted", "yes", "about"]);
  expect(inJsx('<Button title="Press" aria-label={`Open %`} placeholder={n ? "Name" : ""} label="Find" />')).toEqual([
    "Press",
    "Open",
    "Name",
    "Find",
  ]);
});

test("messages_marks_and_other_attributes_are_not_texts", () => {
  expect(inJsx('<p className="faint cut">{t("runs.none")} · {n} / {n} → ×{n} v{n}</p>')).toEqual([]);
  expect(inJsx('<Button icon="play" label={t("action.retry")} type="search" />')).toEqual([]);
  expect(inJsx("<h1>Everstep</h1>")).toEqual([]);
});
