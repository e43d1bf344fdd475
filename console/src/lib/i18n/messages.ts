// The messages of the locale in use, and how a message is written out.

import en from "../../../locales/en.json";
import { intlLocale, isLocale, type Locale, locale, setLocale } from "./locale";

type PluralForm = "zero" | "one" | "two" | "few" | "many" | "other";
type WithoutForm<Name> = Name extends `${infer Base}_${PluralForm}` ? Base : Name;

/** The names of all messages. A plural has one name for all its forms. */
export type MessageKey = WithoutForm<keyof typeof en>;
export type Values = Record<string, string | number>;
export type Messages = Record<string, string>;

let messages: Messages = en;

const LOADERS: Record<Locale, () => Promise<Messages>> = {
  en: async () => en,
  xx: async () => (await import("../../../locales/xx.json")).default,
  yy: async () => (await import("../../../locales/yy.json")).default,
};

/** Loads the messages of a locale and uses them from now on. */
export async function loadLocale(name: string | null): Promise<void> {
  const next = isLocale(name) ? name : "en";
  messages = await LOADERS[next]();
  setLocale(next);
}

/** The text of a message, with its values. `n` selects the plural form. */
export function t(key: MessageKey, values: Values = {}): string {
  return fill(find(messages, key, values), values);
}

/** A message whose name is made of a prefix and a word of the server, such as a status; the word itself if unknown. */
export function tWord(prefix: string, word: string): string {
  return messages[`${prefix}.${word}`] ?? word;
}

export function find(all: Messages, key: string, values: Values): string {
  const count = values.n;
  if (typeof count === "number") {
    const form = new Intl.PluralRules(locale() === "en" ? "en" : intlLocale()).select(count);
    const plural = all[`${key}_${form}`] ?? all[`${key}_other`];
    if (plural !== undefined) return plural;
  }
  return all[key] ?? key;
}

/** Replaces `{name}` by the values. Numbers are written as the locale writes them. */
export function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? formatNumber(value) : value;
  });
}

export function formatNumber(value: number, options?: Intl.NumberFormatOptions): string {
  return new Intl.NumberFormat(intlLocale(), options).format(value);
}
