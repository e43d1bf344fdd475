// Every screen: accessible in both themes, within the content security policy, and without a request to elsewhere.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { Api } from "./harness/api";
import { say } from "./harness/locale";
import { expectNone, openSignedIn, PICTURES, type Scene, scenario } from "./harness/scenario";
import {
  ADMIN_SCREENS,
  anyDialog,
  closeDialog,
  dialogs,
  EMPTY_SCREENS,
  fill,
  fillQuotas,
  openDialog,
  QUOTAS_SCREEN,
  refuse,
  type Screen,
  screens,
  showScreen,
  withWorker,
} from "./harness/screens";
import { hello } from "./harness/workflows";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Rules of the level AAA: colours have the contrast of AA, and rows of a list have links of equal names. */
const OTHER_LEVEL = ["color-contrast-enhanced", "identical-links-same-purpose"];

/**
 * The rules that the page breaks, each with the elements: all rules, also those that are off by default. The announcer of
 * the library is empty between its messages.
 */
async function violations(page: Page): Promise<string[]> {
  return page.evaluate(`(async () => {
    const others = ${JSON.stringify(OTHER_LEVEL)};
    const rules = axe.getRules().map(({ ruleId }) => [ruleId, { enabled: !others.includes(ruleId) }]);
    const options = { resultTypes: ["violations"], rules: Object.fromEntries(rules) };
    const { violations } = await axe.run({ exclude: ["[data-live-announcer]"] }, options);
    return violations.map((one) => one.id + ": " + one.help + " " + one.nodes.map((node) => node.html).join(" | "));
  })()`);
}

type LocaleName = "en" | "yy";

/** Returns the rules that the page breaks in both themes, and draws it in its own language. */
async function checkThemes(page: Page, name: string, locale: LocaleName): Promise<string[]> {
  const wrong: string[] = [];
  mkdirSync(PICTURES, { recursive: true });
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    for (const violation of await violations(page)) wrong.push(`${name} (${theme}, ${locale}): ${violation}`);
    if (locale === "en") await page.screenshot({ path: join(PICTURES, `${name}-${theme}.png`) });
  }
  return wrong;
}

/** Opens the console in a locale, signed in. */
async function openIn(page: Page, locale: LocaleName, key: string): Promise<void> {
  await openSignedIn(page, "/", key);
  if (locale !== "en") {
    await page.goto(`/?locale=${locale}`);
    await page.getByRole("navigation").first().waitFor();
  }
  await page.evaluate(axe);
}

/** Shows screens one after the other. Returns the rules that they break. */
async function checkScreens(page: Page, list: readonly Screen[], locale: LocaleName): Promise<string[]> {
  const wrong: string[] = [];
  for (const screen of list) {
    await showScreen(page, { ...screen, text: say[locale](screen.text) });
    wrong.push(...(await checkThemes(page, screen.name, locale)));
  }
  return wrong;
}

/** Shows every screen: for a caller of the workspace, for an admin of the server, and before signing in. */
async function checkAllScreens({ api, page, colleague }: Scene, locale: LocaleName): Promise<void> {
  const runs = await fill(api);
  await page.goto(`/?locale=${locale}`);
  await page.getByLabel(say[locale]("API key or token")).waitFor();
  await page.evaluate(axe);
  const wrong = await checkThemes(page, "sign-in", locale);
  await openIn(page, locale, api.key);
  wrong.push(...(await checkScreens(page, screens(runs), locale)));
  await withWorker(api, async (screen) => {
    wrong.push(...(await checkScreens(page, [screen], locale)));
  });
  const admin = await colleague();
  await openIn(admin, locale, inject("key"));
  wrong.push(...(await checkScreens(admin, ADMIN_SCREENS, locale)));
  wrong.push(...(await checkQuotas(admin, locale)));
  expectNone("rules of accessibility that screens break", wrong);
}

/** Checks the quotas of the workspace page: those of the server, and those of `fillQuotas`. Returns the broken rules. */
async function checkQuotas(admin: Page, locale: LocaleName): Promise<string[]> {
  await showScreen(admin, { name: "workspaces", path: "/access/workspaces", text: say[locale]("fetch in scripts") });
  const meter = (name: string) => admin.getByRole("meter", { name: say[locale](name), exact: true });
  const line = (name: string) => admin.getByRole("listitem").filter({ has: meter(name) });
  for (const name of ["Workflows", "API keys", "Streams at this node"]) {
    // The text of the meter for screen readers is also beside it. Both are read at once: the numbers may change.
    const [use, shown] = await meter(name).evaluate((element) => [
      element.getAttribute("aria-valuetext"),
      element.nextElementSibling?.textContent,
    ]);
    expect(use, name).toMatch(/^\d[\d,]* of \d[\d,]*( ~)*$/);
    expect(shown, name).toBe(use);
    expect(await line(name).locator(".ui-note").count(), `${name}: no warning`).toBe(0);
  }
  await fillQuotas(admin, new Api(inject("url"), inject("key")));
  const wrong = await checkScreens(admin, [QUOTAS_SCREEN], locale);
  await line("Workflows").getByText(say[locale](QUOTAS_SCREEN.text)).waitFor();
  expect(await line("API keys").locator(".ui-note").count(), "no warning below 90 %").toBe(0);
  await line("Streams at this node").locator(".ui-note").filter({ hasText: "90%" }).waitFor();
  await line("Streams at this node").locator("code").getByText("EVERSTEP_MAX_STREAMS").waitFor();
  return wrong;
}

scenario("every_screen_is_accessible_in_both_themes", (scene) => checkAllScreens(scene, "en"), { timeout: 300_000 });

scenario("every_screen_is_accessible_with_longer_texts", (scene) => checkAllScreens(scene, "yy"), { timeout: 300_000 });

scenario(
  "a_new_workspace_is_accessible",
  async ({ api, page }) => {
    const wrong: string[] = [];
    for (const locale of ["en", "yy"] as const) {
      await page.goto("/");
      await page.evaluate(() => sessionStorage.clear());
      await openIn(page, locale, api.key);
      wrong.push(...(await checkScreens(page, EMPTY_SCREENS, locale)));
    }
    expectNone("rules of accessibility that screens of a new workspace break", wrong);
  },
  { timeout: 120_000 },
);

/** Opens every dialog, and the page of a caller without a permission. */
async function checkAllDialogs({ api, page, colleague }: Scene, locale: LocaleName): Promise<void> {
  const runs = await fill(api);
  // The first dialog is checked in its final state, not while it appears.
  await page.emulateMedia({ reducedMotion: "reduce" });
  await openIn(page, locale, api.key);
  const wrong: string[] = [];
  const check = async (name: string) => {
    await anyDialog(page).waitFor();
    wrong.push(...(await checkThemes(page, name, locale)));
    await closeDialog(page);
  };
  await page.keyboard.press("?");
  await check("dialog-keys");
  await page.keyboard.press("Control+k");
  await check("dialog-palette");
  for (const dialog of dialogs(runs)) {
    await openDialog(page, dialog, say[locale]);
    await check(dialog.name);
  }
  // A page that the caller may not see names the permission.
  const viewer = await colleague();
  await openIn(viewer, locale, (await api.keyFor("viewer")).secret);
  await showScreen(viewer, { name: "forbidden", path: "/access/keys", text: "This needs the permission" });
  wrong.push(...(await checkThemes(viewer, "forbidden", locale)));
  expectNone("rules of accessibility that dialogs break", wrong);
}

const DIALOG_OPTIONS = { expects: [/403/], timeout: 240_000 };
scenario("every_dialog_is_accessible_in_both_themes", (scene) => checkAllDialogs(scene, "en"), DIALOG_OPTIONS);
scenario("every_dialog_is_accessible_with_longer_texts", (scene) => checkAllDialogs(scene, "yy"), DIALOG_OPTIONS);

scenario(
  "screens_that_load_fail_or_are_not_live_are_accessible",
  async ({ api, colleague }) => {
    await api.save("hello", hello);
    await api.reaches(await api.start("hello", { name: "Ada" }), "completed");
    const wrong: string[] = [];
    for (const locale of ["en", "yy"] as const) {
      const page = await colleague();
      // A socket that is closed at once: the page is not live from its beginning.
      await page.routeWebSocket(/\/v1\/socket/, (socket) => socket.close());
      await openIn(page, locale, api.key);
      await page.evaluate(() => window.history.pushState(null, "", "/runs"));
      await page.getByText("Not live since", { exact: false }).waitFor();
      wrong.push(...(await checkThemes(page, "state-stale", locale)));
      await refuse(page, "**/v1/workers*");
      await showScreen(page, { name: "error", path: "/workers", text: "the database does not answer" });
      wrong.push(...(await checkThemes(page, "state-error", locale)));
      // A request without an answer.
      await page.route("**/v1/secrets*", () => undefined);
      await page.evaluate(() => window.history.pushState(null, "", "/access/secrets"));
      const loading = say[locale]("Loading");
      await page.getByRole("main").getByRole("status", { name: loading }).first().waitFor();
      wrong.push(...(await checkThemes(page, "state-loading", locale)));
    }
    expectNone("rules of accessibility that these states break", wrong);
  },
  { expects: [/500/, /WebSocket/], timeout: 180_000 },
);

scenario("no_request_leaves_the_origin_and_nothing_breaks_the_policy", async ({ api, page, open }) => {
  const runs = await fill(api);
  await open("/");
  const answer = await page.goto(`/runs/${runs.done}`);
  const headers = answer?.headers() ?? {};
  expect(headers["content-security-policy"]).toBe(POLICY);
  expect(headers["x-content-type-options"]).toBe("nosniff");
  expect(headers["referrer-policy"]).toBe("no-referrer");
  expect(headers["cross-origin-opener-policy"]).toBe("same-origin");
  // The drawing is laid out in a worker, the figures are drawn by a canvas: the policy must allow both.
  await page.getByRole("button", { name: "greet Completed" }).waitFor();
  for (const path of ["/", "/runs", "/workflows/hello", "/inbox", "/workers"]) {
    await page.goto(path);
    await page.getByRole("main").waitFor();
    await page.waitForLoadState("networkidle");
  }
});
