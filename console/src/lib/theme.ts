// Light, dark, or as the system says.

import { readPreference, writePreference } from "./preference";
import { createStore } from "./store";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

const isTheme = (text: string | null): text is Theme => THEMES.some((theme) => theme === text);
const stored = readPreference("theme");

export const themeStore = createStore<Theme>(isTheme(stored) ? stored : "system");

export function applyTheme(theme: Theme): void {
  document.documentElement.style.colorScheme = theme === "system" ? "light dark" : theme;
  document.documentElement.dataset.theme = theme;
  writePreference("theme", theme === "system" ? null : theme);
  themeStore.set(theme);
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  const theme = themeStore.get();
  return theme === "system" ? window.matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}
