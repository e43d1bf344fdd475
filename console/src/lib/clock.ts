// The present, for texts such as "3 minutes ago". One timer serves all components.

import { createStore, useStore } from "./store";
import { SECOND } from "./time";

const clock = createStore(Date.now());
let timer: ReturnType<typeof setInterval> | undefined;
let users = 0;

const ticking = {
  ...clock,
  subscribe: (listener: () => void) => {
    users += 1;
    timer ??= setInterval(() => clock.set(Date.now()), SECOND);
    const leave = clock.subscribe(listener);
    return () => {
      leave();
      users -= 1;
      if (users === 0) {
        clearInterval(timer);
        timer = undefined;
      }
    };
  },
};

/** The present in milliseconds, renewed every second. */
export function useNow(): number {
  return useStore(ticking);
}
