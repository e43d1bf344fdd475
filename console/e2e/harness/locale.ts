// The texts of the console in its pseudo locales.

import en from "../../locales/en.json";
import xx from "../../locales/xx.json";
import yy from "../../locales/yy.json";

export type Say = (text: string) => string;

/** Translates a text of the English locale. Data is not translated. */
const translate =
  (messages: typeof en): Say =>
  (text) => {
    const key = Object.entries(en).find(([, one]) => one === text)?.[0];
    return key === undefined ? text : messages[key as keyof typeof en];
  };

/** How each locale says an English text. */
export const say = { en: (text: string) => text, xx: translate(xx), yy: translate(yy) };
