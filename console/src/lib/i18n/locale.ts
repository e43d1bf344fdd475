// The locales of the console, and the one in use.

/** `xx` and `yy` are for tests: every letter replaced, and 40 % longer. */
export type Locale = "en" | "xx" | "yy";

export const LOCALES: readonly Locale[] = ["en", "xx", "yy"];

/** The locale of `Intl` for numbers and dates. That of `xx` writes no Latin letters. */
const INTL: Record<Locale, string> = { en: "en", xx: "ru", yy: "en" };

let current: Locale = "en";

export function locale(): Locale {
  return current;
}

export function intlLocale(): string {
  return INTL[current];
}

export function setLocale(next: Locale): void {
  current = next;
}

export function isLocale(text: string | null): text is Locale {
  return LOCALES.some((known) => known === text);
}
