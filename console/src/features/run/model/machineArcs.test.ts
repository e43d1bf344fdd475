// The arcs beside the states of a machine.

import { expect, test } from "vitest";
import { arcsOf } from "./machineArcs";
import { readMachine } from "./machineModel";

function arcs(text: Record<string, string[]>): string[] {
  const states = Object.entries(text).map(([name, to]) => ({
    name,
    on: Object.fromEntries(to.map((target, index) => [`GO${index}`, { to: target }])),
  }));
  return arcsOf(readMachine({ states })).map(
    (arc) =>
      `${arc.from}>${arc.to} lane ${arc.lane} at ${arc.begin.index}/${arc.begin.count} ${arc.end.index}/${arc.end.count}`,
  );
}

test("arcs_that_overlap_have_lanes_of_their_own", () => {
  expect(arcs({ open: ["review"], review: ["done", "open"], done: [] })).toEqual([
    "0>1 lane 0 at 1/2 0/3",
    "1>2 lane 0 at 2/3 0/1",
    "1>0 lane 1 at 1/3 0/2",
  ]);
});

test("a_move_that_stays_or_leads_to_an_unknown_state_has_no_arc", () => {
  expect(arcs({ open: ["open", "nowhere"] })).toEqual([]);
});

test("two_moves_between_the_same_states_share_an_arc", () => {
  expect(arcs({ open: ["done", "done"], done: [] })).toHaveLength(1);
});
