// The console in the pseudo locale, in which no message has a Latin letter.

import type { Page } from "playwright-core";
import { inject } from "vitest";
import en from "../locales/en.json";
import { Api } from "./harness/api";
import { say } from "./harness/locale";
import { expectNone, scenario } from "./harness/scenario";
import {
  ADMIN_SCREENS,
  anyDialog,
  closeDialog,
  dialogs,
  fill,
  fillQuotas,
  openDialog,
  QUOTAS_SCREEN,
  refuse,
  screens,
  showScreen,
} from "./harness/screens";

/** Words of the server that the console translates. */
const TRANSLATED = [
  ...["pending", "running", "waiting", "paused", "completed", "failed", "cancelled", "skipped"],
  ...["viewer", "operator", "publisher", "admin", "worker", "person", "key", "system"],
];

/** The component library has translations of its own, but none for the pseudo locale. */
const LIBRARY = ["Dismiss", "Increase", "Decrease", "Number field"];

/** A time in a sentence of the server: to the second. */
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/;

/** A text of the page, with the element that has it. */
interface Shown {
  text: string;
  place: string;
}

/** All texts that a person or a screen reader reads. Commands, code and keys are the same in every language. */
function readTexts(page: Page): Promise<Shown[]> {
  return page.evaluate(() => {
    const same = "code,pre,kbd,script,style,[translate=no],.ui-json-rows";
    const shown: Shown[] = [{ text: document.title, place: "title" }];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (parent === null || parent.closest(same) !== null || !parent.checkVisibility()) continue;
      shown.push({ text: node.textContent ?? "", place: parent.className || parent.tagName });
    }
    for (const name of [
      "aria-label",
      "aria-description",
      "aria-valuetext",
      "aria-roledescription",
      "title",
      "placeholder",
      "alt",
    ]) {
      for (const element of document.querySelectorAll(`[${name}]`)) {
        if (element.closest(same) !== null) continue;
        shown.push({
          text: element.getAttribute(name) ?? "",
          place: `${name} of ${element.className || element.tagName}`,
        });
      }
    }
    return shown;
  });
}

/**
 * Collects the texts of all answers and messages of the server: data, which is not translated. Returns how to wait until
 * those that have arrived are read.
 */
function collectData(page: Page, data: Set<string>): () => Promise<unknown> {
  const reads: Promise<unknown>[] = [];
  const collect = (value: unknown) => {
    // The page writes the times in a sentence of the server in its own language.
    if (typeof value === "string") for (const text of [value, ...value.split(TIME)]) data.add(text);
    else if (Array.isArray(value)) value.forEach(collect);
    else if (typeof value === "object" && value !== null) Object.values(value).forEach(collect);
  };
  page.on("response", (response) => {
    if (!response.url().includes("/v1/")) return;
    reads.push(response.json().then(collect, () => undefined));
  });
  page.on("websocket", (socket) => {
    socket.on("framereceived", ({ payload }) => collect(JSON.parse(String(payload))));
  });
  return () => Promise.all(reads);
}

/** The rest of a text without the data in it. */
function withoutData(text: string, data: readonly string[]): string {
  const rest = data.reduce((rest, one) => rest.replaceAll(one, ""), text);
  // The beginning of an id.
  return rest.replace(/\b[0-9a-f]{4,}\b/g, "");
}

/** Opens the console in the pseudo locale. Returns how to find English texts on a page of it. */
async function openPseudo(page: Page, key: string) {
  const data = new Set<string>();
  const arrived = collectData(page, data);
  const english: string[] = [];
  const zone = await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone);
  const find = async (name: string) => {
    await arrived();
    const known = [...data]
      .filter((text) => text.length > 1 && !TRANSLATED.includes(text) && !(text in en))
      .sort((a, b) => b.length - a.length);
    const same = ["Everstep", ...LIBRARY, zone, new URL(page.url()).pathname, ...known];
    const texts = (await readTexts(page)).filter(({ text }) => /[A-Za-z]{2,}/.test(withoutData(text, same)));
    return texts.map(({ text, place }) => `${name}: ${JSON.stringify(text)} (${place})`);
  };
  const check = async (name: string) => {
    let found = await find(name);
    // The page may show data before this process has received the same message.
    for (let tries = 0; found.length > 0 && tries < 30; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      found = await find(name);
    }
    english.push(...found);
  };
  await page.goto("/?locale=xx");
  await page.locator("input").waitFor();
  await check("sign-in");
  await page.locator("input").fill(key);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation").first().waitFor();
  return { check, english };
}

scenario(
  "pseudo_locale_shows_no_english",
  async ({ api, page, colleague }) => {
    const runs = await fill(api);
    const { check, english } = await openPseudo(page, api.key);
    for (const screen of screens(runs)) {
      await showScreen(page, { ...screen, text: say.xx(screen.text) });
      await check(screen.name);
    }
    await page.keyboard.press("?");
    await anyDialog(page).waitFor();
    await check("keys");
    await closeDialog(page);
    await page.keyboard.press("Control+k");
    await anyDialog(page).waitFor();
    await check("palette");
    await closeDialog(page);
    for (const dialog of dialogs(runs)) {
      await openDialog(page, dialog, say.xx);
      await check(dialog.name);
      await closeDialog(page);
    }
    await refuse(page, "**/v1/workers*");
    await page.goto("/workers?locale=xx");
    await page.getByText("the database does not answer").waitFor();
    await check("error");
    const admin = await colleague();
    const theirs = await openPseudo(admin, inject("key"));
    for (const screen of ADMIN_SCREENS) {
      await showScreen(admin, { ...screen, text: say.xx(screen.text) });
      await theirs.check(screen.name);
    }
    await fillQuotas(admin, new Api(inject("url"), inject("key")));
    await showScreen(admin, { ...QUOTAS_SCREEN, text: say.xx(QUOTAS_SCREEN.text) });
    await theirs.check(QUOTAS_SCREEN.name);
    expectNone("English texts in the pseudo locale", [...new Set([...english, ...theirs.english])]);
  },
  { expects: [/500/], timeout: 180_000 },
);
