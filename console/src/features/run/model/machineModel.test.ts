import { expect, test } from "vitest";
import type { HistoryEntry } from "../../../api/types";
import { entriesUntil, readMachine } from "./machineModel";

test("states_have_their_actions_timers_and_branches", () => {
  const [open, done] = readMachine({
    states: [
      {
        name: "open",
        title: "Open",
        initial: true,
        on: {
          TAKE: {
            title: "Take it",
            needs: { comment: true, data: ["reason"] },
            require: { assigned: true },
            to: "done",
          },
          VOTE: { quorum: { need: 2 }, choose: [{ condition: {}, to: "done" }, { to: "open" }, { to: "done" }] },
        },
        after: [
          { in: "3d", to: "done" },
          { in: "1h", do: "TAKE" },
          { in: "1m", events: [] },
        ],
        run: { workflow: "check", done: "done", error: "open" },
      },
      { name: "done", terminal: true, error: true },
    ],
  });
  expect(open?.moves.map((move) => [move.kind, move.label, move.to])).toEqual([
    ["action", "Take it", ["done"]],
    ["action", "VOTE", ["done", "open"]],
    ["timer", "3d", ["done"]],
    ["timer", "1h", ["done"]],
    ["timer", "1m", []],
    ["run", "check", ["done", "open"]],
  ]);
  expect(open?.moves[0]).toMatchObject({ needsComment: true, needsData: ["reason"], isForAssigned: true, votes: null });
  expect(open?.moves[1]?.votes).toBe("2");
  expect(done).toMatchObject({ title: "done", isTerminal: true, isError: true, isInitial: false, moves: [] });
});

test("a_definition_that_is_no_machine_has_no_states", () => {
  for (const definition of [null, 7, [], {}, { states: {} }, { states: [null, 7] }]) {
    expect(readMachine(definition)).toEqual([]);
  }
});

test("the_history_ends_at_the_entry_on_screen_latest_first", () => {
  const entries = [2, 5, 9].map((seq) => ({ seq }) as HistoryEntry);
  const seqsUntil = (until: number | null) => entriesUntil(entries, until).map((entry) => entry.seq);
  expect(seqsUntil(null)).toEqual([9, 5, 2]);
  expect(seqsUntil(8)).toEqual([5, 2]);
  expect(seqsUntil(1)).toEqual([]);
});
