// Keys that work anywhere on a page, unless a person types into a field.

import { useEffect, useRef } from "react";

export interface Hotkey {
  /** `?`, `L`, `Shift+Home`, or a sequence such as `g r`. Letters without shift are lower case. */
  keys: string;
  run: () => void;
}

const SEQUENCE_TIMEOUT = 1_000;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Finds the hotkey of a pressed key, after the key before it. Pure, for tests. */
export function matchHotkey(hotkeys: readonly Hotkey[], before: string | null, key: string): Hotkey | undefined {
  const sequence = before === null ? undefined : hotkeys.find((hotkey) => hotkey.keys === `${before} ${key}`);
  return sequence ?? hotkeys.find((hotkey) => hotkey.keys === key);
}

export function useHotkeys(hotkeys: readonly Hotkey[]): void {
  const current = useRef(hotkeys);
  current.current = hotkeys;
  useEffect(() => {
    let before: string | null = null;
    let beforeAt = 0;
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
      if (document.querySelector("[role=dialog],[role=alertdialog],[role=menu],[role=listbox][data-open]")) return;
      const recent = event.timeStamp - beforeAt < SEQUENCE_TIMEOUT ? before : null;
      // Shift is part of a character, and not of other keys.
      const key = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
      const found = matchHotkey(current.current, recent, key);
      [before, beforeAt] = [key, event.timeStamp];
      if (!found) return;
      event.preventDefault();
      before = null;
      found.run();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}
