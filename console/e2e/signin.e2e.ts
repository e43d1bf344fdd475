// Signing in and out.

import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { Api } from "./harness/api";
import { openSignedIn, scenario } from "./harness/scenario";
import { closeDialog, fill, showScreen } from "./harness/screens";
import { everstep } from "./harness/server";
import { until } from "./harness/until";
import { hello } from "./harness/workflows";

/** The link that `everstep open` prints next to the server. */
const signInLink = () => everstep(["open", "--server", inject("url")], { EVERSTEP_API_KEY: inject("key") });

scenario("a_newcomer_signs_in_by_link_and_starts_hello", async ({ page }) => {
  const admin = new Api(inject("url"), inject("key"));
  await admin.save("hello", hello);
  const link = await signInLink();
  await page.goto(link);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  expect(page.url(), "the code is removed from the address").not.toContain("code");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Workflows", exact: true }).click();
  await page.getByRole("row", { name: "hello" }).click();
  await page.getByRole("button", { name: "Start" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Input (JSON)").fill('{"name": "Ada"}');
  await dialog.getByRole("button", { name: "Start run" }).click();
  await page.waitForURL(/\/runs\/[0-9a-f-]+/);
  await page.getByRole("button", { name: "greet Completed" }).waitFor();
  await page.locator(".ui-status.pill").getByText("Completed").waitFor();
  await page.getByRole("tab", { name: "Input & output" }).click();
  await page.getByText("Hello, Ada!").waitFor();
});

scenario("a_link_that_is_pasted_into_an_open_tab_signs_in", async ({ page }) => {
  await page.goto("/");
  await page.getByLabel("API key or token").waitFor();
  // The address differs in its fragment only, so the page is not loaded again.
  const link = await signInLink();
  await page.evaluate((link) => window.location.assign(link), link);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  expect(page.url(), "the code is removed from the address").not.toContain("code");
  await page.goBack();
  expect(page.url(), "and from the history").not.toContain("code");
});

scenario(
  "a_used_code_is_refused",
  async ({ page, colleague }) => {
    const link = await signInLink();
    await page.goto(link);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const other = await colleague();
    await other.goto(link);
    await other.getByText("CODE_USED").waitFor();
    await other.getByLabel("API key or token").waitFor();
  },
  { expects: [/409/] },
);

scenario("signing_out_revokes_the_key_of_the_link", async ({ page }) => {
  await page.goto(await signInLink());
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const text = await page.evaluate(() => sessionStorage.getItem("everstep.credential"));
  const { credential } = JSON.parse(text ?? "{}");
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByLabel("API key or token").waitFor();
  await until("the key to be revoked", async () => {
    const answer = await fetch(`${inject("url")}/v1/me`, { headers: { authorization: `Bearer ${credential}` } });
    return answer.status === 401;
  });
});

scenario(
  "a_revoked_key_leads_to_sign_in",
  async ({ api, page, open }) => {
    const made = await api.keyFor("viewer");
    await open("/runs", made.secret);
    await api.ask("DELETE", `/v1/keys/${made.id}`);
    await page.getByRole("link", { name: "Workers" }).click();
    await page.getByLabel("API key or token").waitFor();
    expect(await page.evaluate(() => sessionStorage.length), "no credential is kept").toBe(0);
  },
  { expects: [/401/, /WebSocket/] },
);

scenario("a_created_key_is_shown_once", async ({ api, page, open }) => {
  await open("/access/keys");
  await page.getByRole("button", { name: "Create API key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("robot");
  await dialog.getByRole("button", { name: "Create API key" }).click();
  const shown = page.getByRole("alertdialog");
  const secret = await shown.locator("pre").innerText();
  await new Api(api.url, secret).ask("GET", "/v1/me");
  await shown.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("row", { name: "robot" }).waitFor();
  expect(await page.getByText(secret).count(), "the secret is not shown again").toBe(0);
});

/** The names of the enabled menu entries behind a button. */
async function openMenu(page: Page, button: string): Promise<string[]> {
  await page.getByRole("main").getByRole("button", { name: button, exact: true }).click();
  const menu = page.getByRole("menu");
  await menu.waitFor();
  const enabled = await menu.getByRole("menuitem", { disabled: false }).allInnerTexts();
  await page.keyboard.press("Escape");
  await menu.waitFor({ state: "detached" });
  return enabled;
}

/** The pages about access to which the side bar links. */
function accessLinks(page: Page): Promise<string[]> {
  return page.getByRole("navigation", { name: "Pages" }).locator("a[href^='/access/']").allInnerTexts();
}

/** The names of the enabled buttons that change something. */
async function changingButtons(page: Page): Promise<string[]> {
  const changing =
    /^(Start|Start again|Fork|Retry|Cancel run|Pause|Resume|Signal|Approve|Reject|Take it|Activate|Delete|Create|Set|Replace|Add|Save|Test|Try(?! again)|Revoke)\b/;
  const enabled = page.getByRole("button", { disabled: false });
  // A button without a text has a label.
  const names = await enabled.evaluateAll((all) => all.map((one) => one.ariaLabel ?? (one as HTMLElement).innerText));
  return names.map((name) => name.trim()).filter((name) => changing.test(name));
}

scenario(
  "a_viewer_sees_no_way_to_change_anything",
  async ({ api, page, open, colleague }) => {
    const runs = await fill(api);
    // A second version, so that the first one could be activated.
    await api.save("hello", { ...hello, description: "a second version" });
    const { secret } = await api.keyFor("viewer");
    await open("/", secret);
    const pages: ReadonlyArray<[string, string]> = [
      [`/runs/${runs.done}`, "greet"],
      [`/runs/${runs.failed}`, "declined"],
      [`/runs/${runs.asking}`, "order.approval"],
      [`/runs/${runs.machine}`, "In review"],
    ];
    for (const [path, text] of pages) {
      await showScreen(page, { name: path, path, text });
      expect(await openMenu(page, "More actions"), path).toEqual(["Export as a file"]);
      expect(await changingButtons(page), path).toEqual([]);
    }
    // Keys and the palette offer no action either.
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog").getByRole("option", { name: "Export as a file" }).waitFor();
    for (const name of ["Retry", "Cancel run", "Pause", "Signal", "Fork", "Start again"])
      expect(await page.getByRole("option", { name, exact: true }).count(), name).toBe(0);
    await closeDialog(page);

    await showScreen(page, { name: "runs", path: "/runs", text: "payment" });
    expect(await openMenu(page, "All that match")).toEqual([]);
    await page
      .getByRole("row", { name: /payment/ })
      .getByRole("checkbox")
      .click({ force: true });
    await page.getByText("1 selected").waitFor();
    expect(await changingButtons(page), "actions on selected rows").toEqual([]);

    await showScreen(page, { name: "workflow", path: "/workflows/hello?view=versions", text: "Digest" });
    await page.getByRole("button", { name: "Activate" }).waitFor();
    expect(await openMenu(page, "More actions")).toEqual(["Export this version"]);
    expect(await changingButtons(page), "the page of a workflow").toEqual([]);

    const refused: ReadonlyArray<[string, string]> = [
      ["/inbox", "workflow:act"],
      ["/access/keys", "workflow:admin"],
      ["/access/secrets", "workflow:publish"],
      ["/access/audit", "workflow:admin"],
    ];
    for (const [path, permission] of refused) {
      await showScreen(page, { name: path, path, text: `This needs the permission ${permission}` });
      expect(await changingButtons(page), path).toEqual([]);
    }
    // Data sources and queries are definitions, which every viewer may read.
    await api.ask("PUT", "/v1/data-sources/shop", { type: "http", baseUrl: "https://shop.example.com" });
    await api.ask("PUT", "/v1/queries/orders", { source: "shop", http: { path: "/orders" } });
    expect(await accessLinks(page), "the links of a viewer").toEqual(["Data sources", "Queries"]);
    for (const [path, name] of [
      ["/access/sources", "shop"],
      ["/access/queries", "orders"],
    ] as const) {
      await showScreen(page, { name: path, path, text: name });
      expect(await changingButtons(page), path).toEqual([]);
      await page.getByRole("row", { name }).getByText(name).first().click();
      await page.getByRole("dialog").getByRole("button", { name: "Save" }).waitFor();
      expect(await changingButtons(page), `${path}: the definition`).toEqual([]);
      await closeDialog(page);
    }
    // A publisher may read the names of secrets, and change none.
    await api.ask("PUT", "/v1/secrets/token", { value: "hidden" });
    const publisher = await colleague();
    await openSignedIn(publisher, "/access/secrets", (await api.keyFor("publisher")).secret);
    await publisher.getByRole("row", { name: "token" }).waitFor();
    expect(await accessLinks(publisher), "the links of a publisher").toEqual(["Secrets", "Data sources", "Queries"]);
    expect(await changingButtons(publisher), "the secrets of a publisher").toEqual([]);
  },
  { expects: [/403/], timeout: 120_000 },
);
