// The list of runs.

import { expect } from "vitest";
import { openSignedIn, scenario } from "./harness/scenario";
import { until } from "./harness/until";
import { chain, hello, script, wait } from "./harness/workflows";

const MANY = 10_000;
/** Rows that the table draws at most, however many it has. */
const ROWS_MAX = 60;

scenario("a_filter_in_the_url_shows_a_colleague_the_same", async ({ api, page, open, colleague }) => {
  await api.save("hello", hello);
  await api.save("broken", chain(script("fall", `throw new Error("no")`, { retry: { maxAttempts: 1 } })));
  for (const name of ["Ada", "Bo"]) await api.reaches(await api.start("hello", { name }), "completed");
  const failed = await api.start("broken");
  await api.reaches(failed, "failed");
  await open("/runs");
  const rows = page.getByRole("rowgroup").getByRole("row");
  await rows.nth(2).waitFor();
  await page.getByLabel("Filter", { exact: true }).fill("status:failed");
  await page.keyboard.press("Enter");
  await page.waitForURL(/status=failed/);
  await rows.nth(1).waitFor({ state: "detached" });
  expect(await rows.count()).toBe(1);
  const statuses = page.getByRole("group", { name: "Status" });
  await statuses.getByRole("button", { name: "Failed", pressed: true }).waitFor();
  expect(await statuses.getByRole("button", { pressed: true }).count(), "the other statuses are not pressed").toBe(1);
  const other = await colleague();
  await openSignedIn(other, page.url(), api.key);
  const theirs = other.getByRole("rowgroup").getByRole("row");
  await theirs.first().waitFor();
  expect(await theirs.count()).toBe(1);
  expect(await theirs.first().innerText()).toContain("broken");
  await theirs.first().click();
  await other.waitForURL(new RegExp(failed));
});

scenario("the_runs_of_an_event_are_found", async ({ api, page, open }) => {
  await api.save("hello", { ...hello, trigger: { type: "event", topic: "user.created" } });
  await api.start("hello", { name: "Ada" });
  await api.ask("POST", "/v1/topics/user.created", { name: "Bo" });
  await until("the event to start a run", async () => {
    const { runs } = await api.ask<{ runs: { status: string }[] }>("GET", "/v1/runs");
    return runs.filter((run) => run.status === "completed").length === 2;
  });
  await open("/runs");
  const rows = page.getByRole("rowgroup").getByRole("row");
  await rows.first().click();
  // The link of the topic leads to all runs that the event has started.
  await page.locator(".run-fact").getByRole("link", { name: "user.created" }).click();
  await page.waitForURL(/trigger=event/);
  await page.getByText("1 run", { exact: true }).waitFor();
});

scenario("new_runs_are_announced_and_do_not_move_the_rows", async ({ api, page, open }) => {
  await api.save("hello", hello);
  await api.reaches(await api.start("hello", { name: "Ada" }), "completed");
  await open("/runs");
  const rows = page.getByRole("rowgroup").getByRole("row");
  await rows.first().waitFor();
  await page.getByLabel("Live", { exact: true }).waitFor();
  await api.start("hello", { name: "Bo" });
  const notice = page.getByRole("button", { name: "1 new run" });
  await notice.waitFor();
  expect(await rows.count()).toBe(1);
  await notice.click();
  await rows.nth(1).waitFor();
});

scenario("two_selected_runs_are_compared", async ({ api, page, open }) => {
  await api.save("hello", hello);
  const older = await api.start("hello", { name: "Ada" });
  await api.reaches(older, "completed");
  const newer = await api.start("hello", { name: "Bo" });
  await api.reaches(newer, "completed");
  await open("/runs?view=status,workflow,origin");
  const rows = page.getByRole("rowgroup").getByRole("row");
  await rows.nth(1).waitFor();
  expect(await page.getByRole("columnheader").allInnerTexts()).toEqual(["", "Status", "Workflow", "Fork of"]);
  const compare = page.getByRole("button", { name: "Compare", exact: true });
  await rows.nth(0).getByRole("checkbox").click({ force: true });
  await page.getByText("1 selected").waitFor();
  expect(await compare.isDisabled(), "one run has nothing to be compared with").toBe(true);
  await rows.nth(1).getByRole("checkbox").click({ force: true });
  await page.getByText("2 selected").waitFor();
  await compare.click();
  await page.waitForURL(new RegExp(`/runs/${older}/diff/${newer}`));
  await page.locator(".diff-row").filter({ hasText: "first divergence" }).waitFor();
});

scenario(
  "selected_runs_are_counted_before_and_refusals_say_why",
  async ({ api, page, open }) => {
    await api.save("hello", hello);
    await api.save("gate", chain(wait("gate", "go")));
    await api.reaches(await api.start("hello", { name: "Ada" }), "completed");
    const [one = "", two = ""] = await api.startMany("gate", 2, () => ({}));
    for (const run of [one, two]) await api.reaches(run, "waiting");
    await open("/runs");
    const rows = page.getByRole("rowgroup").getByRole("row");
    await rows.nth(2).waitFor();
    await page.getByRole("checkbox", { name: "Select all loaded rows" }).click({ force: true });
    await page.getByText("3 selected").waitFor();
    await page.getByRole("button", { name: "Cancel run", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("2 runs are cancelled.").waitFor();
    await dialog.getByText("1 selected run stays as it is (Completed).").waitFor();
    // The server refuses one of them.
    await page.route(`**/v1/runs/${two}/cancel`, (route) =>
      route.fulfill({
        status: 409,
        contentType: "application/problem+json",
        body: JSON.stringify({ status: 409, code: "INVALID_TRANSITION", detail: "the run moves to another node" }),
      }),
    );
    await dialog.getByRole("button", { name: "Apply to 2 runs" }).click();
    await dialog.getByText("1 changed, 0 unchanged, 1 refused").waitFor();
    await dialog.getByRole("list", { name: "Refused runs" }).getByText("the run moves to another node").waitFor();
    await api.reaches(one, "cancelled");
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await dialog.waitFor({ state: "detached" });
  },
  { expects: [/409/] },
);

scenario(
  "ten_thousand_runs_scroll_filter_and_are_cancelled_in_bulk",
  async ({ api, page, open }) => {
    await api.save("gate", chain(wait("gate", "go")));
    await api.startMany("gate", MANY, (n) => ({ n }));
    await open("/runs");
    const table = page.getByRole("grid", { name: "Runs" });
    const rows = page.getByRole("rowgroup").getByRole("row");
    await rows.first().waitFor();
    await table.focus();
    // The key leads to the last loaded row, near which the next page is loaded.
    for (let loaded = 0; loaded < MANY; loaded = Number(await table.getAttribute("aria-rowcount")) - 1) {
      await page.keyboard.press("End");
      expect(await rows.count(), "rows that are drawn").toBeLessThanOrEqual(ROWS_MAX);
      await page.waitForFunction(
        ([loaded, all]) => {
          const count = Number(document.querySelector("[role=grid]")?.getAttribute("aria-rowcount")) - 1;
          return count > loaded || count === all;
        },
        [loaded, MANY] as const,
      );
    }
    await page.getByText("10,000 runs", { exact: true }).waitFor();
    await page.keyboard.press("End");
    await page.locator(`[role=row][aria-rowindex="${MANY + 1}"]`).waitFor();

    await page.getByLabel("Filter", { exact: true }).fill("input.n:7777");
    await page.keyboard.press("Enter");
    await page.getByText("1 run", { exact: true }).waitFor();
    expect(await rows.count()).toBe(1);
    await page.getByRole("button", { name: "Clear filters" }).click();
    await rows.nth(1).waitFor();

    await page.getByRole("button", { name: "All that match" }).click();
    await page.getByRole("menuitem", { name: "Cancel runs" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("10,000 runs are cancelled.").waitFor();
    await dialog.getByRole("button", { name: "Apply to 10,000 runs" }).click();
    await page.getByText("10,000 changed, 0 unchanged, 0 refused").waitFor({ timeout: 90_000 });
    await rows.first().getByText("Cancelled").waitFor();
    await until("all runs to be counted as cancelled", async () => {
      const [workflow] = await api.ask<{ cancelled: number }[]>("GET", "/v1/workflows");
      return workflow?.cancelled === MANY;
    });
  },
  { timeout: 180_000 },
);
