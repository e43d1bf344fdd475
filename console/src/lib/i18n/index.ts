// The texts of the console in the language of its reader.

export { intlLocale, LOCALES, type Locale, locale } from "./locale";
export { formatNumber, loadLocale, type MessageKey, t, tWord, type Values } from "./messages";
export { type Parts, tParts } from "./parts";
