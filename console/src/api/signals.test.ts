import { beforeEach, expect, test, vi } from "vitest";
import { call } from "./client";
import { ApiProblem } from "./problem";
import { decisionNotice, sendApproval } from "./signals";

vi.mock("./client", () => ({ call: vi.fn() }));
const calls = vi.mocked(call as (name: string, options: { headers?: Record<string, string> }) => Promise<unknown>);

const wait = { step: "decide", since: "2026-01-01T00:00:00.000Z" };
const approval = { run: "r", signal: "order", match: { orderId: 7 }, wait, isApproved: true, comment: " fine " };
const conditions = { key: "k", version: 4 };
const changed = () =>
  new ApiProblem({ status: 409, code: "CONCURRENCY_ERROR", detail: "Concurrent modification detected", requestId: "" });
const runWith = (open: unknown[], status = "waiting") => ({ id: "r", version: 9, status, open });

beforeEach(() => {
  calls.mockReset();
});

test("an_approval_has_its_key_and_the_version_on_screen", async () => {
  calls.mockResolvedValueOnce({ outcome: "accepted" });
  await sendApproval(approval, conditions);
  expect(calls).toHaveBeenCalledExactlyOnceWith("POST /v1/runs/{id}/signals/{event}", {
    path: { id: "r", event: "order" },
    body: { orderId: 7, approved: true, comment: "fine" },
    headers: { "idempotency-key": "k", "if-match": '"4"' },
  });
});

test("entries_that_do_not_concern_the_wait_do_not_refuse_the_decision", async () => {
  calls
    .mockRejectedValueOnce(changed())
    .mockResolvedValueOnce(runWith([{ ...wait, event: "order" }]))
    .mockResolvedValueOnce({ outcome: "accepted" });
  await sendApproval(approval, conditions);
  expect(calls.mock.calls[2]?.[1].headers).toEqual({ "idempotency-key": "k", "if-match": '"9"' });
});

test("a_run_that_never_rests_is_answered_at_any_version", async () => {
  calls.mockImplementation(async (name, { headers }) => {
    if (name.startsWith("GET")) return runWith([{ ...wait, event: "order" }]);
    if (headers?.["if-match"] !== undefined) throw changed();
    return { outcome: "accepted" };
  });
  expect((await sendApproval(approval, conditions)).outcome).toEqual({ outcome: "accepted" });
  expect(calls).toHaveBeenCalledTimes(7);
});

test("a_decision_about_another_wait_or_a_paused_run_is_refused", async () => {
  const later = { ...wait, since: "2026-01-01T00:05:00.000Z", event: "order" };
  for (const run of [runWith([]), runWith([later]), runWith([{ ...wait, event: "order" }], "paused")]) {
    calls.mockReset();
    calls.mockRejectedValueOnce(changed()).mockResolvedValueOnce(run);
    await expect(sendApproval(approval, conditions)).rejects.toMatchObject({ code: "CONCURRENCY_ERROR" });
    expect(calls).toHaveBeenCalledTimes(2);
  }
});

test("a_repeated_decision_is_reported_as_the_journal_has_it", async () => {
  calls.mockResolvedValueOnce({ outcome: "repeated" }).mockResolvedValueOnce({ output: { approved: true } });
  const decided = await sendApproval({ ...approval, isApproved: false }, conditions);
  expect(decided.recorded).toBe(true);
  expect(decisionNotice(decided, false)).toEqual({ text: "Recorded before: Approved", tone: "bad" });
  expect(decisionNotice(decided, true)).toMatchObject({ tone: "good" });
  calls.mockResolvedValueOnce({ outcome: "repeated" }).mockRejectedValueOnce(changed());
  expect(decisionNotice(await sendApproval(approval, conditions), true)).toMatchObject({ tone: "bad" });
});
