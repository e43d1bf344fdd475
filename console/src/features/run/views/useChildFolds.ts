// The child runs that are open in the timeline of a run: each is read and followed like the run on screen.

import { useEffect, useMemo, useRef, useState } from "react";
import type { ApiProblem } from "../../../api/problem";
import type { ChildFolds } from "../model/timelineModel";
import { RunStore } from "../runStore";

interface Followed {
  store: RunStore;
  stop: () => void;
}

/**
 * The folds of these runs, as soon as their journals are read. With a time, as they were at that time.
 * `onProblem` receives a run that cannot be read.
 */
export function useChildFolds(
  runs: readonly string[],
  until: number | null,
  onProblem: (run: string, problem: ApiProblem) => void,
): ChildFolds {
  const followed = useRef(new Map<string, Followed>());
  /** Counts the changes of all followed runs. */
  const [changes, setChanges] = useState(0);
  const report = useRef(onProblem);
  report.current = onProblem;
  const wanted = runs.join(" ");
  useEffect(() => {
    const known = followed.current;
    const ids = wanted === "" ? [] : wanted.split(" ");
    for (const [id, { stop }] of known) {
      if (ids.includes(id)) continue;
      stop();
      known.delete(id);
    }
    for (const id of ids) {
      if (known.has(id)) continue;
      const store = new RunStore(id, null);
      const leave = store.view.subscribe(() => {
        const { problem } = store.view.get();
        if (problem) report.current(id, problem);
        setChanges((count) => count + 1);
      });
      const stop = () => {
        leave();
        store.close();
      };
      known.set(id, { store, stop });
      void store.start();
    }
  }, [wanted]);
  useEffect(() => {
    const known = followed.current;
    return () => {
      for (const { stop } of known.values()) stop();
      known.clear();
    };
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the runs change in place; the number of changes says so.
  return useMemo(() => {
    const folds = [...followed.current].filter(([, { store }]) => store.view.get().phase === "ready");
    return new Map(
      folds.map(([id, { store }]) => {
        const { model } = store;
        return [id, until === null ? model.fold : model.at(model.seqAt(until))];
      }),
    );
  }, [wanted, changes, until]);
}
