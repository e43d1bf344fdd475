// The models of a run: folds, time travel, the timeline, the graph.

import { expect, test } from "vitest";
import { statusOf } from "./fold";
import { edgeState, readGraph } from "./graphModel";
import { headsOf, since } from "./heads.fixture";
import { FOLD_EVERY, RunModel } from "./runModel";
import { sentenceAt, splitAtTimes } from "./sentence";
import { axis, placeOf, timeAt, timelineRows } from "./timelineModel";

const RETRIED = `
  +0 run started
  +1 step charge began task
  +11 step charge failed
  +11 step charge retries due=100
  +100 step charge retryDue
  +100 step charge began task #2
  +120 step charge completed #2 handle=paid
  +120 step ask began wait
  +400 step ask completed
  +401 run completed`;

function modelOf(text: string): RunModel {
  const model = new RunModel();
  expect(model.append(headsOf(text))).toBe(true);
  return model;
}

test("updates_are_applied_in_order", () => {
  const model = modelOf(RETRIED);
  const statuses = model.all().map(({ seq }) => {
    const fold = model.at(seq);
    return `${seq} ${statusOf(fold)} charge=${fold.steps.get("charge")?.status ?? "-"} ask=${fold.steps.get("ask")?.status ?? "-"}`;
  });
  expect(statuses).toEqual([
    "1 running charge=- ask=-",
    "2 running charge=running ask=-",
    "3 running charge=failed ask=-",
    "4 waiting charge=waiting ask=-",
    "5 running charge=running ask=-",
    "6 running charge=running ask=-",
    "7 running charge=completed ask=-",
    "8 waiting charge=completed ask=waiting",
    "9 running charge=completed ask=completed",
    "10 completed charge=completed ask=completed",
  ]);
  expect(model.fold.steps.get("charge")?.attempts.map((one) => one.status)).toEqual(["failed", "completed"]);
});

test("a_head_that_arrives_twice_changes_nothing", () => {
  const model = modelOf(RETRIED);
  model.append(headsOf(RETRIED).slice(2, 6));
  expect(model.last).toBe(10);
  expect(model.fold.steps.get("charge")?.attempts).toHaveLength(2);
});

test("a_missing_head_is_noticed_and_nothing_after_it_is_applied", () => {
  const model = new RunModel();
  const heads = headsOf(RETRIED);
  expect(model.append([...heads.slice(0, 2), ...heads.slice(4)])).toBe(false);
  expect(model.last).toBe(2);
  expect(model.append(heads.slice(2))).toBe(true);
  expect(model.last).toBe(10);
});

test("the_fold_at_any_entry_equals_a_fold_from_the_beginning", () => {
  const lines = ["+0 run started", "+0 step each began body=900"];
  for (let item = 0; item < 900; item += 1)
    lines.push(`+${item} step each[${item}].work began task`, `+${item} step each[${item}].work completed`);
  const heads = headsOf(lines.join("\n"));
  const model = new RunModel();
  model.append(heads);
  for (const seq of [1, 2, 3, FOLD_EVERY - 1, FOLD_EVERY, FOLD_EVERY + 1, 1_234, heads.length]) {
    const fresh = new RunModel();
    fresh.append(heads.slice(0, seq));
    const fold = model.at(seq);
    expect(fold.run).toEqual(fresh.fold.run);
    expect([...fold.steps]).toEqual([...fresh.fold.steps]);
    expect(fold.nodes.get("work")?.counts).toEqual(fresh.fold.nodes.get("work")?.counts);
  }
  expect(model.fold.nodes.get("work")?.total).toBe(900);
});

test("a_loop_is_one_row_until_it_is_opened", () => {
  const model = modelOf(`
    +0 run started
    +1 step each began body=2
    +1 step each[0].fetch began task
    +5 step each[0].fetch completed
    +5 step each[1].fetch began task`);
  expect(timelineRows(model.fold, new Set()).map((row) => `${row.label} ${row.inside}`)).toEqual(["each 2"]);
  const rows = timelineRows(model.fold, new Set(["each"]));
  // The open step comes first.
  expect(rows.map((row) => `${row.depth} ${row.label} ${row.status}`)).toEqual([
    "0 each running",
    "1 [1] fetch running",
    "1 [0] fetch completed",
  ]);
});

const PARENT = `
  +0 run started
  +1 step call began child=b
  +90 step call completed
  +90 step last began task`;
const CHILD = `
  +10 run started
  +11 step each began body=1
  +11 step each[0].fetch began task
  +20 step each[0].fetch completed
  +20 step each completed
  +21 step again began child=c`;

test("the_steps_of_a_child_run_are_rows_below_its_step_while_it_is_open", () => {
  const { fold } = modelOf(PARENT);
  const children = new Map([["b", modelOf(CHILD).fold]]);
  const shown = (opened: string[], known = children) =>
    timelineRows(fold, new Set(opened), known).map((row) => `${row.depth} ${row.id} ${row.label}`);
  expect(shown([])).toEqual(["0 last last", "0 call call"]);
  // Until the child is read, its row is open without rows below it.
  expect(shown(["call"], new Map())).toEqual(["0 last last", "0 call call"]);
  expect(shown(["call"])).toEqual(["0 last last", "0 call call", "1 b/again again", "1 b/each each"]);
  // A loop and another child inside of the child open too; the loop of the same name outside does not.
  expect(shown(["call", "each", "b/again"])).toEqual(shown(["call"]));
  expect(shown(["call", "b/each"])).toEqual([...shown(["call"]), "2 b/each[0].fetch [0] fetch"]);
  const [, call, again] = timelineRows(fold, new Set(["call"]), children);
  expect([call?.child, call?.canOpen, call?.isOpen, again?.child, again?.run]).toEqual(["b", true, true, "c", "b"]);
});

test("the_last_entry_until_a_time_is_found", () => {
  const model = modelOf(RETRIED);
  const [first] = model.all();
  const start = Date.parse(first?.at ?? "");
  expect([-1, 0, 1, 10, 11, 119, 120, 5_000].map((ms) => model.seqAt(start + ms))).toEqual([0, 1, 2, 2, 4, 6, 8, 10]);
});

test("an_attempt_that_is_retried_is_followed_by_its_pause", () => {
  const [charge] = timelineRows(modelOf(RETRIED).fold, new Set());
  expect(
    charge?.bars.map((bar) => `${bar.kind} ${since(bar.from)}-${bar.to === null ? "" : since(bar.to)} ${bar.status}`),
  ).toEqual(["work 1-11 failed", "backoff 11-100 failed", "work 100-120 completed"]);
});

test("idle_time_is_squeezed_to_a_mark", () => {
  const rows = timelineRows(modelOf(RETRIED).fold, new Set());
  const segments = axis(rows, 0, true);
  expect(segments.map((one) => `${since(one.from)}-${since(one.to)}${one.isSqueezed ? " idle" : ""}`)).toEqual([
    "1-11",
    "11-100 idle",
    "100-120",
    "120-400 idle",
  ]);
  for (const segment of segments) expect(timeAt(segments, placeOf(segments, segment.to))).toBeCloseTo(segment.to, 3);
  expect(segments.at(-1)?.end).toBeCloseTo(1);
});

const GRAPH = readGraph({
  nodes: [
    { id: "start", type: "start" },
    { id: "each", type: "loop" },
    { id: "inner", type: "loop" },
    { id: "work", type: "http" },
    { id: "end", type: "end" },
  ],
  edges: [
    { source: "start", target: "each" },
    { source: "each", target: "inner", sourceHandle: "loop" },
    { source: "inner", target: "work", sourceHandle: "loop" },
    { source: "work", target: "inner" },
    { source: "inner", target: "each", sourceHandle: "done" },
    { source: "each", target: "end", sourceHandle: "done" },
  ],
});

test("the_body_of_a_loop_is_found_by_its_edges", () => {
  const parents = Object.fromEntries(GRAPH.nodes.map((node) => [node.id, node.parent]));
  expect(parents).toEqual({ start: null, each: null, inner: "each", work: "inner", end: null });
  expect(GRAPH.edges.map((edge) => edge.isBody)).toEqual([false, true, true, true, true, false]);
});

test("an_edge_is_taken_by_the_handle_of_its_node", () => {
  const { fold } = modelOf(`
    +0 run started
    +1 step choose began task
    +2 step choose completed handle=left
    +2 step a began task
    +2 step b skipped`);
  const edge = (target: string, handle: string) => ({ id: target, source: "choose", target, handle, isBody: false });
  const state = (target: string, handle: string) =>
    edgeState(edge(target, handle), fold.nodes.get("choose"), fold.nodes.get(target));
  expect(state("a", "left")).toBe("taken");
  expect(state("b", "right")).toBe("dead");
  expect(edgeState(edge("a", "left"), undefined, undefined)).toBe("open");
});

test("a_node_is_titled_by_its_name_or_title_unless_it_has_a_label", () => {
  const titleOf = (fields: object) => readGraph({ nodes: [{ id: "a", ...fields }] }).nodes[0]?.title;
  expect(titleOf({})).toBe("a");
  expect(titleOf({ title: "Charge" })).toBe("Charge");
  expect(titleOf({ name: "Charge", title: "other" })).toBe("Charge");
  expect(titleOf({ name: "Charge", label: "Drawn" })).toBe("Drawn");
  expect(titleOf({ name: "", title: 7 })).toBe("a");
});

test("a_machine_has_the_state_of_each_entry", () => {
  const model = new RunModel();
  model.append(
    headsOf(`
      +0 run started
      +1 run moved open
      +60000 run moved review
      +60001 run voted
      +120000 run moved approved
      +120001 run completed
    `),
  );
  const placeAt = (seq: number) => model.at(seq).run.place?.state ?? null;
  expect([1, 2, 3, 4, 5, 6].map(placeAt)).toEqual([null, "open", "review", "review", "approved", "approved"]);
  expect(sentenceAt(model.at(4))).toMatch(/^is in the state review since /);
  expect(sentenceAt(model.at(6)), "an ended run waits for nothing").toBeNull();
});

test("times_of_a_sentence_are_found_and_those_in_data_are_not", () => {
  expect(
    splitAtTimes("is in review since 2025-11-16T00:00:00Z: APPROVE; goes to late at 2025-11-18T00:00:00Z"),
  ).toEqual(["is in review since ", "2025-11-16T00:00:00Z", ": APPROVE; goes to late at ", "2025-11-18T00:00:00Z", ""]);
  const waits = 'waits for the signal "paid" with {"day":"2025-11-16T00:00:00Z"} at step ask';
  expect(splitAtTimes(waits)).toEqual([waits]);
});
