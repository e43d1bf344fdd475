// Signing in and out.

import { expect, inject } from "vitest";
import { Api } from "./harness/api";
import { scenario } from "./harness/scenario";
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

scenario(
  "a_viewer_sees_no_way_to_change_anything",
  async ({ api, page, open }) => {
    await api.save("hello", hello);
    const run = await api.start("hello", { name: "Ada" });
    await api.reaches(run, "completed");
    const { secret } = await api.keyFor("viewer");
    await open(`/runs/${run}`, secret);
    await page.getByRole("button", { name: "greet Completed" }).waitFor();
    for (const name of ["Start again", "Fork", "Retry", "Cancel run", "Pause"]) {
      const button = page.getByRole("button", { name, exact: true });
      if ((await button.count()) > 0) expect(await button.isDisabled(), name).toBe(true);
    }
    await page.getByRole("link", { name: "Workflows", exact: true }).click();
    await page.getByRole("row", { name: "hello" }).click();
    const start = page.getByRole("button", { name: "Start", exact: true });
    await start.waitFor();
    expect(await start.isDisabled(), "Start").toBe(true);
    await page.goto("/access/keys");
    await page.getByText("This needs the permission workflow:admin").waitFor();
    expect(await page.getByRole("button", { name: "Create API key" }).count()).toBe(0);
  },
  { expects: [/403/] },
);
