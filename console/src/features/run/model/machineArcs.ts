// The arcs beside the list of a machine's states: one per pair of states with a move between them.

import type { MachineState } from "./machineModel";

export interface Arc {
  /** Places in the list of states. */
  from: number;
  to: number;
  /** The distance from the list: arcs in one lane do not overlap. */
  lane: number;
  /** Among the ends of arcs at one state, from above: the place of this one, and their number. */
  begin: Slot;
  end: Slot;
}

export interface Slot {
  index: number;
  count: number;
}

/** Arcs farther outside share the last lane. */
export const LANES_MAX = 10;

export function arcsOf(states: readonly MachineState[]): Arc[] {
  const places = new Map(states.map((state, index) => [state.name, index]));
  const pairs = new Map<string, { from: number; to: number }>();
  for (const [from, state] of states.entries()) {
    for (const name of state.moves.flatMap((move) => move.to)) {
      const to = places.get(name);
      if (to !== undefined && to !== from) pairs.set(`${from} ${to}`, { from, to });
    }
  }
  // Short arcs are nearest to the list.
  const length = (arc: { from: number; to: number }) => Math.abs(arc.to - arc.from);
  const sorted = [...pairs.values()].sort((a, b) => length(a) - length(b) || a.from - b.from);
  const lanes: Array<Array<{ from: number; to: number }>> = [];
  const placed = sorted.map((arc) => {
    const free = lanes.findIndex((taken) => taken.every((other) => !overlap(arc, other)));
    const lane = Math.min(free === -1 ? lanes.length : free, LANES_MAX - 1);
    lanes[lane] = [...(lanes[lane] ?? []), arc];
    return { ...arc, lane };
  });
  return placed.map((arc) => ({
    ...arc,
    begin: slotOf(placed, arc.from, arc.to, "from"),
    end: slotOf(placed, arc.to, arc.from, "to"),
  }));
}

function overlap(one: { from: number; to: number }, other: { from: number; to: number }): boolean {
  const [top, bottom] = [Math.min(one.from, one.to), Math.max(one.from, one.to)];
  return top < Math.max(other.from, other.to) && bottom > Math.min(other.from, other.to);
}

/**
 * The place of an end of an arc at a state, so that arcs do not cross beside it: those to states above come first, the
 * innermost of them highest; of those to states below the innermost is lowest.
 */
function slotOf(
  arcs: ReadonlyArray<{ from: number; to: number; lane: number }>,
  state: number,
  other: number,
  side: "from" | "to",
): Slot {
  const ends = arcs
    .filter((arc) => arc.from === state || arc.to === state)
    .map(({ from, to, lane }) => {
      const other = from === state ? to : from;
      const rank = other < state ? lane - LANES_MAX : LANES_MAX - lane;
      return { other, rank, side: from === state ? "from" : "to" };
    })
    .sort((a, b) => a.rank - b.rank);
  return { index: ends.findIndex((end) => end.other === other && end.side === side), count: ends.length };
}
