// Every screen: accessible in both themes, within the content security policy, and without a request to elsewhere.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { expectNone, openSignedIn, PICTURES, scenario } from "./harness/scenario";
import { fill, screens, showScreen } from "./harness/screens";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The rules that the page breaks, each with the elements. The announcer of the library is empty between its messages. */
async function violations(page: Page): Promise<string[]> {
  return page.evaluate(`(async () => {
    const { violations } = await axe.run({ exclude: ["[data-live-announcer]"] }, { resultTypes: ["violations"] });
    return violations.map((one) => one.id + ": " + one.help + " " + one.nodes.map((node) => node.html).join(" | "));
  })()`);
}

/** Draws the page in both themes, and returns the rules that it breaks. */
async function checkThemes(page: Page, name: string): Promise<string[]> {
  const wrong: string[] = [];
  mkdirSync(PICTURES, { recursive: true });
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    for (const violation of await violations(page)) wrong.push(`${name} (${theme}): ${violation}`);
    await page.screenshot({ path: join(PICTURES, `${name}-${theme}.png`) });
  }
  return wrong;
}

scenario(
  "every_screen_is_accessible_in_both_themes",
  async ({ api, page, open }) => {
    const runs = await fill(api);
    await page.goto("/");
    await page.getByLabel("API key or token").waitFor();
    await page.evaluate(axe);
    const wrong = await checkThemes(page, "sign-in");
    await open("/");
    await page.evaluate(axe);
    for (const screen of screens(runs)) {
      await showScreen(page, screen);
      wrong.push(...(await checkThemes(page, screen.name)));
    }
    expectNone("rules of accessibility that screens break", wrong);
  },
  { timeout: 240_000 },
);

scenario(
  "every_screen_is_accessible_with_longer_texts",
  async ({ api, page, open }) => {
    const runs = await fill(api);
    const wrong: string[] = [];
    await open("/");
    await page.goto("/?locale=yy");
    await page.getByRole("navigation").first().waitFor();
    await page.evaluate(axe);
    for (const screen of screens(runs)) {
      await showScreen(page, screen);
      for (const violation of await violations(page)) wrong.push(`${screen.name}: ${violation}`);
    }
    expectNone("rules of accessibility that screens break", wrong);
  },
  { timeout: 240_000 },
);

scenario(
  "every_dialog_is_accessible_in_both_themes",
  async ({ api, page, open, colleague }) => {
    const runs = await fill(api);
    // The first dialog is checked in its final state, not while it appears.
    await page.emulateMedia({ reducedMotion: "reduce" });
    await open("/");
    await page.evaluate(axe);
    const wrong: string[] = [];
    const check = async (name: string) => {
      await page.getByRole("dialog").or(page.getByRole("alertdialog")).waitFor();
      wrong.push(...(await checkThemes(page, name)));
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    };
    await page.keyboard.press("?");
    await check("dialog-keys");
    await page.keyboard.press("Control+k");
    await check("dialog-palette");
    const dialogs: Array<[string, string, string]> = [
      ["dialog-start", "/workflows/hello", "Start"],
      ["dialog-start-again", `/runs/${runs.done}`, "Start again"],
      ["dialog-cancel", `/runs/${runs.asking}`, "Cancel run"],
      ["dialog-key", "/access/keys", "Create API key"],
      ["dialog-secret", "/access/secrets", "Set a secret"],
      ["dialog-source", "/access/sources", "Add a data source"],
    ];
    for (const [name, path, button] of dialogs) {
      await page.evaluate((path) => window.history.pushState(null, "", path), path);
      await page.getByRole("main").getByRole("button", { name: button, exact: true }).click();
      await check(name);
    }
    // A page that the caller may not see names the permission.
    const viewer = await colleague();
    await openSignedIn(viewer, "/access/keys", (await api.keyFor("viewer")).secret);
    await viewer.getByText("This needs the permission").waitFor();
    await viewer.evaluate(axe);
    wrong.push(...(await checkThemes(viewer, "forbidden")));
    expectNone("rules of accessibility that dialogs break", wrong);
  },
  { expects: [/403/], timeout: 120_000 },
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
