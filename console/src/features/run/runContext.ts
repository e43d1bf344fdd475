// Gives the run on screen to the components that draw its parts.

import { useIsFetching } from "@tanstack/react-query";
import { createContext, useContext, useSyncExternalStore } from "react";
import { useThrottled } from "../../lib/throttle";
import type { NodeFold, StepFold } from "./model/fold";
import type { RunStore, RunView } from "./runStore";

const Context = createContext<RunStore | null>(null);
export const RunProvider = Context.Provider;

export function useRunStore(): RunStore {
  const store = useContext(Context);
  if (store === null) throw new Error("a part of a run is drawn inside its provider");
  return store;
}

/** A part of the run. The component is drawn again only when this part is another value. */
export function useRunPart<T>(select: (view: RunView) => T): T {
  const { view } = useRunStore();
  return useSyncExternalStore(view.subscribe, () => select(view.get()));
}

/** How often values of a run are requested again while it is live. */
export const REFRESH_EVERY = 1_000;

/**
 * The entry for which values are requested: the one on screen. While the run is live, it follows the last one once per
 * second, and not before the requests with this key have their answers.
 */
export function useRequestedSeq(queryKey: readonly unknown[]): number {
  const seq = useRunPart((view) => view.fold.run.seq);
  const isLive = useRunPart((view) => view.at === null);
  const isFetching = useIsFetching({ queryKey }) > 0;
  const throttled = useThrottled(seq, isLive ? REFRESH_EVERY : 0, isLive && isFetching);
  return isLive ? throttled : seq;
}

export function useNodeFold(node: string): NodeFold | undefined {
  return useRunPart((view) => view.fold.nodes.get(node));
}

export function useStepFold(key: string): StepFold | undefined {
  return useRunPart((view) => view.fold.steps.get(key));
}
