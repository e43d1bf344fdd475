// The page's model of a run against the story of the server, for journals that the simulator has played.
//
// Each line of the file $EVERSTEP_JOURNALS has the heads of a journal, and after each of them the status of the run and
// the steps that have changed, with the statuses of their attempts.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Head } from "../src/api/types";
import { type Fold, statusOf } from "../src/features/run/model/fold";
import { RunModel } from "../src/features/run/model/runModel";

interface Journal {
  name: string;
  heads: Head[];
  after: Array<{ status: string; steps: Record<string, string> }>;
}

/** Most of these journals are short: stored folds are closer to each other than on the page. */
const FOLD_EVERY = 8;

function readJournals(): Journal[] {
  const file = process.env.EVERSTEP_JOURNALS;
  if (!file) throw new Error("EVERSTEP_JOURNALS is not set: `cargo test -p everstep-api the_model_of_the_console`");
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.map((line) => JSON.parse(line));
}

function shown(fold: Fold): Record<string, string> {
  const steps = [...fold.steps.values()].map(({ key, status, attempts }) => {
    const each = attempts.map((one) => ` ${one.attempt}:${one.status}`);
    return [key, status + each.join("")] as const;
  });
  return { "": statusOf(fold), ...Object.fromEntries(steps) };
}

function isEqual(one: Record<string, string>, other: Record<string, string>): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
}

test("the_model_has_the_statuses_of_the_story_after_every_entry", () => {
  const journals = readJournals();
  expect(journals.length).toBeGreaterThanOrEqual(200);
  for (const { name, heads, after } of journals) {
    const whole = new RunModel(FOLD_EVERY);
    expect(whole.append(heads), `${name}: no entry is missing`).toBe(true);
    const live = new RunModel();
    const expected: Record<string, string> = {};
    for (const [index, head] of heads.entries()) {
      live.append([head]);
      Object.assign(expected, after[index]?.steps, { "": after[index]?.status });
      // The fold as the entries arrive, and as the slider of a run shows it.
      for (const fold of [live.fold, whole.at(head.seq)]) {
        // A comparison of the library takes much longer, and is needed only for its message.
        if (!isEqual(shown(fold), expected)) expect(shown(fold), `${name} after entry ${head.seq}`).toEqual(expected);
      }
    }
  }
});
