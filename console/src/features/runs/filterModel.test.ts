import { expect, test } from "vitest";
import { mayMatch, termsFromParams, termsToBulk, termsToQuery, termsToText, textToTerms } from "./filterModel";

test("a_filter_is_the_same_as_text_and_in_the_url", () => {
  const text = 'status:failed,paused input.order.id:7 workflow:"my flow" tag.team:blue';
  const parsed = textToTerms(text);
  expect(parsed.ok).toBe(true);
  const terms = parsed.ok ? parsed.terms : [];
  expect(termsToText(terms)).toBe(text);
  expect(termsFromParams(new URLSearchParams(termsToQuery(terms, 0)))).toEqual(terms);
});

test("runs_of_an_event_are_found", () => {
  const terms = [{ name: "trigger", value: "event:01a1e9d0" }];
  expect(textToTerms("trigger:event:01a1e9d0")).toEqual({ ok: true, terms });
  expect(termsToQuery(terms, 0)).toBe("trigger=event%3A01a1e9d0");
  expect(termsToBulk(terms, 0)).toEqual({ trigger: "event:01a1e9d0" });
});

test("an_unknown_name_and_an_unknown_status_are_named", () => {
  expect(textToTerms("colour:red")).toEqual({ ok: false, wrong: "colour" });
  expect(textToTerms("status:done")).toEqual({ ok: false, wrong: "done" });
  expect(textToTerms('workflow:"open')).toMatchObject({ ok: false });
});

test("a_word_without_a_name_is_a_search", () => {
  expect(textToTerms("01a1e9d0")).toEqual({ ok: true, terms: [{ name: "text", value: "01a1e9d0" }] });
});

test("a_span_becomes_a_time_to_the_minute", () => {
  const now = Date.parse("2026-01-02T10:00:42Z");
  expect(termsToQuery([{ name: "since", value: "24h" }], now)).toBe("since=2026-01-01T10%3A00%3A00.000Z");
});

test("a_bulk_request_selects_what_the_list_shows", () => {
  const terms = textToTerms("status:failed version:3 input.order.id:7 tag.team:blue");
  expect(termsToBulk(terms.ok ? terms.terms : [], 0)).toEqual({
    status: ["failed"],
    version: 3,
    input: { "order.id": "7" },
    tags: { team: "blue" },
  });
});

test("a_new_run_that_the_filter_excludes_is_not_announced", () => {
  const terms = [{ name: "workflow", value: "a" }];
  expect(mayMatch(terms, { workflow: "a", status: "running" })).toBe(true);
  expect(mayMatch(terms, { workflow: "b", status: "running" })).toBe(false);
});
