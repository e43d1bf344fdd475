// The list of runs.

import { expect } from "vitest";
import { openSignedIn, scenario } from "./harness/scenario";
import { chain, hello, script } from "./harness/workflows";

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
  const other = await colleague();
  await openSignedIn(other, page.url(), api.key);
  const theirs = other.getByRole("rowgroup").getByRole("row");
  await theirs.first().waitFor();
  expect(await theirs.count()).toBe(1);
  expect(await theirs.first().innerText()).toContain("broken");
  await theirs.first().click();
  await other.waitForURL(new RegExp(failed));
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
