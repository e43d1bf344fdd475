// Gives the run on screen to the components that draw its parts.

import { createContext, useContext, useSyncExternalStore } from "react";
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

export function useNodeFold(node: string): NodeFold | undefined {
  return useRunPart((view) => view.fold.nodes.get(node));
}

export function useStepFold(key: string): StepFold | undefined {
  return useRunPart((view) => view.fold.steps.get(key));
}
