// Choices of this browser that are no secret: theme, columns, locale.

const PREFIX = "everstep.";

export function readPreference(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function writePreference(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch {
    // A browser may forbid storage; the choice then lasts until the page is closed.
  }
}
