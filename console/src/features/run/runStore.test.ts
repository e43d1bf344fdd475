import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readHeads } from "../../api/heads";
import { ApiProblem } from "../../api/problem";
import type { RunFollower } from "../../api/socket";
import { headsOf } from "./model/heads.fixture";
import { RunStore } from "./runStore";

const seen = vi.hoisted(() => ({ follower: null as unknown }));
vi.mock("../../api/heads", () => ({ readHeads: vi.fn() }));
vi.mock("../../api/socket", async (original) => ({
  ...(await original<typeof import("../../api/socket")>()),
  liveSocket: () => ({
    followRun: (_: string, follower: unknown) => {
      seen.follower = follower;
      return () => undefined;
    },
    followWorkspace: () => () => undefined,
  }),
}));

const heads = headsOf(`
  +0 run started
  +1 step a began task
  +2 step a completed
  +3 run completed
`);
const reads = vi.mocked(readHeads);
/** The server sends all heads after an entry. */
const send: typeof readHeads = async (_, after, receive) => receive(heads.slice(after));
const refuse =
  (status: number): typeof readHeads =>
  async () => {
    throw new ApiProblem({ status, code: "REFUSED", detail: "no", requestId: "" });
  };

async function begin(): Promise<{ store: RunStore; receive: (seq: number) => Promise<unknown> }> {
  reads.mockImplementationOnce(async (_id, _after, receive) => receive(heads.slice(0, 1)));
  const store = new RunStore("r", null);
  await store.start();
  const follower = seen.follower as RunFollower;
  const receive = (seq: number) => {
    follower.receive({ run: "r", event: "entry", seq, data: heads[seq - 1] });
    // The next frame applies it.
    return vi.advanceTimersByTimeAsync(20);
  };
  return { store, receive };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame"] });
  reads.mockReset();
});
afterEach(() => {
  vi.useRealTimers();
});

test("entries_after_a_gap_are_read_until_the_server_replies", async () => {
  const { store, receive } = await begin();
  reads.mockImplementationOnce(refuse(503)).mockImplementationOnce(refuse(500)).mockImplementation(send);
  await receive(3);
  expect(store.view.get().last).toBe(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(store.view.get()).toMatchObject({ last: 4, problem: null });
  store.close();
});

test("one_read_at_a_time_fills_the_gaps", async () => {
  const { store, receive } = await begin();
  let answer = (): void => undefined;
  reads.mockImplementationOnce(
    (_, after, take) =>
      new Promise((resolve) => {
        answer = () => {
          take(heads.slice(after, 2));
          resolve();
        };
      }),
  );
  reads.mockImplementation(send);
  await receive(3);
  await receive(4);
  expect(reads, "the first read has no answer yet").toHaveBeenCalledTimes(2);
  answer();
  await vi.advanceTimersByTimeAsync(0);
  expect(store.view.get().last, "an entry that was missed during the read is read after it").toBe(4);
  expect(reads).toHaveBeenCalledTimes(3);
  store.close();
});

test("a_run_that_was_deleted_is_not_requested_for_ever", async () => {
  const { store, receive } = await begin();
  reads.mockImplementation(refuse(404));
  await receive(3);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(reads).toHaveBeenCalledTimes(2);
  expect(store.view.get().problem?.status).toBe(404);
  store.close();
});
