// A state machine as its definition describes it: states, and the moves between them.

import type { HistoryEntry } from "../../../api/types";
import { isObject } from "../../../lib/json";

export interface MachineState {
  name: string;
  title: string;
  description: string | null;
  isInitial: boolean;
  isTerminal: boolean;
  /** Whether a run that ends here has failed. */
  isError: boolean;
  moves: readonly MachineMove[];
}

/** An action, a timer or the end of a run that the state starts: each leads to other states. */
export interface MachineMove {
  kind: "action" | "timer" | "run";
  /** The title of an action, the time of a timer, the name of a workflow. */
  label: string;
  /** The names of the states that it may lead to; none if the state stays as it is. */
  to: readonly string[];
  needsComment: boolean;
  needsData: readonly string[];
  /** The votes that it needs: a number, a percentage, or a word of the definition. */
  votes: string | null;
  isForAssigned: boolean;
}

/** The states of a definition, in its order. */
export function readMachine(definition: unknown): MachineState[] {
  const states = isObject(definition) ? listOf(definition.states) : [];
  return states.filter(isObject).map((state) => {
    const name = textOf(state.name) ?? "";
    return {
      name,
      title: textOf(state.title) ?? name,
      description: textOf(state.description),
      isInitial: state.initial === true,
      isTerminal: state.terminal === true,
      isError: state.error === true,
      moves: [...actionsOf(state.on), ...timersOf(state.after, state.on), ...runOf(state.run)],
    };
  });
}

function actionsOf(on: unknown): MachineMove[] {
  if (!isObject(on)) return [];
  return Object.entries(on).map(([name, action]) => {
    const written = isObject(action) ? action : {};
    const needs = isObject(written.needs) ? written.needs : {};
    const quorum = isObject(written.quorum) ? written.quorum.need : undefined;
    return {
      kind: "action",
      label: textOf(written.title) ?? name,
      to: targetsOf(written),
      needsComment: needs.comment === true,
      needsData: listOf(needs.data).map(String),
      votes: quorum === undefined ? null : String(quorum),
      isForAssigned: isObject(written.require) && written.require.assigned === true,
    };
  });
}

const PLAIN = { needsComment: false, needsData: [], votes: null, isForAssigned: false } as const;

/** A timer leads to a state, or performs an action of its own state. */
function timersOf(after: unknown, on: unknown): MachineMove[] {
  return listOf(after)
    .filter(isObject)
    .map((timer) => {
      const action = isObject(on) && typeof timer.do === "string" ? on[timer.do] : undefined;
      const time = String(timer.in ?? timer.at ?? "");
      return { ...PLAIN, kind: "timer", label: time, to: targetsOf(isObject(action) ? action : timer) };
    });
}

function runOf(run: unknown): MachineMove[] {
  if (!isObject(run)) return [];
  const to = [...toList(run.done), ...toList(run.error)];
  return [{ ...PLAIN, kind: "run", label: textOf(run.workflow) ?? "", to }];
}

/** The states of `to` and of the branches, each once. */
function targetsOf(move: Record<string, unknown>): string[] {
  const branches = listOf(move.choose).filter(isObject);
  return [...new Set([...toList(move.to), ...branches.flatMap((branch) => toList(branch.to))])];
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
const toList = (value: unknown): string[] => (typeof value === "string" ? [value] : []);

/** The entries until one of the journal, latest first. */
export function entriesUntil(entries: readonly HistoryEntry[], until: number | null): HistoryEntry[] {
  return entries.filter((entry) => until === null || entry.seq <= until).sort((a, b) => b.seq - a.seq);
}
