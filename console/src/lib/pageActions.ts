// The actions of the page on screen, which the command palette offers.

import { useEffect } from "react";
import { createStore } from "./store";

export interface PageAction {
  id: string;
  label: string;
  run: () => void;
}

export const pageActions = createStore<readonly PageAction[]>([]);

export function usePageActions(actions: readonly PageAction[]): void {
  useEffect(() => {
    pageActions.set(actions);
    return () => pageActions.set([]);
  }, [actions]);
}
