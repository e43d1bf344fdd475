// Live updates over outages and many tabs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject } from "vitest";
import { Api } from "./harness/api";
import { openSignedIn, scenario } from "./harness/scenario";
import { Server } from "./harness/server";
import { chain, script, wait } from "./harness/workflows";

/** The longest pause of the page before it connects again is 30 s, to which a busy machine adds. */
const RECONNECT_TIMEOUT = 60_000;

scenario(
  "the_server_dies_and_comes_back_and_nothing_is_missed_or_doubled",
  async ({ page }) => {
    const folder = mkdtempSync(join(tmpdir(), "everstep-console-"));
    const server = await Server.start(join(folder, "data"));
    try {
      const api = new Api(server.url, server.key);
      await api.save("gates", chain(wait("gate", "go"), script("last", "return 2")));
      const run = await api.start("gates");
      await api.reaches(run, "waiting");
      await openSignedIn(page, `${server.url}/runs/${run}?view=journal`, server.key);
      await page.getByRole("row", { name: /RunStarted/ }).waitFor();
      await page.getByLabel("Live", { exact: true }).waitFor();
      await server.kill();
      await page.getByText("Not live since", { exact: false }).waitFor();
      await server.begin();
      await api.signal(run, "go");
      const { version } = await api.reaches(run, "completed");
      await page.getByRole("row", { name: /RunCompleted/ }).waitFor({ timeout: RECONNECT_TIMEOUT });
      await page.getByText("Not live since", { exact: false }).waitFor({ state: "detached" });
      const rows = page.getByRole("rowgroup").getByRole("row");
      const labels = await rows.evaluateAll((all) => all.map((row) => row.getAttribute("aria-label")));
      const seqs = labels.map((label) => Number(label?.split(" ")[0])).sort((a, b) => a - b);
      expect(seqs).toEqual(Array.from({ length: version }, (_, index) => index + 1));
    } finally {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  { expects: [/net::ERR_/, /WebSocket/, /503/], timeout: 180_000 },
);

scenario("twelve_tabs_are_live_at_once_and_still_load", async ({ api, page, open }) => {
  await api.save("gates", chain(wait("gate", "go"), script("last", "return 2")));
  const run = await api.start("gates");
  await open(`/runs/${run}`);
  const tabs = [page];
  while (tabs.length < 12) {
    // A tab that a page opens has a copy of its session.
    const [tab] = await Promise.all([
      page.context().waitForEvent("page"),
      page.evaluate(() => void window.open(window.location.href)),
    ]);
    tabs.push(tab);
  }
  for (const tab of tabs) await tab.getByRole("button", { name: "gate Waiting" }).waitFor();
  await api.signal(run, "go");
  for (const tab of tabs) await tab.getByRole("button", { name: "last Completed" }).waitFor();
});

const database = inject("database");
if (database !== null) {
  scenario("two_nodes_one_postgres_the_other_node_shows_it_live", async ({ page }) => {
    const folder = mkdtempSync(join(tmpdir(), "everstep-console-"));
    const data = join(folder, "data");
    const nodes: Server[] = [];
    try {
      for (let n = 0; n < 2; n += 1) nodes.push(await Server.start(data, { EVERSTEP_DATABASE_URL: database }));
      const [one, other] = nodes.map((node) => new Api(node.url, node.key));
      if (!one || !other) throw new Error("two nodes were started");
      await one.save("gates", chain(wait("gate", "go"), script("last", "return 2")));
      const run = await one.start("gates");
      await one.reaches(run, "waiting");
      await openSignedIn(page, `${other.url}/runs/${run}`, other.key);
      await page.getByRole("button", { name: "gate Waiting" }).waitFor();
      await page.getByLabel("Live", { exact: true }).waitFor();
      await one.signal(run, "go");
      await page.getByRole("button", { name: "last Completed" }).waitFor();
      await page.locator(".ui-status.pill").getByText("Completed").waitFor();
      await page.goto(`${other.url}/nodes`);
      await page.getByText("this node").waitFor();
      expect(await page.getByRole("rowgroup").getByRole("row").count(), "both nodes are listed").toBe(2);
    } finally {
      for (const node of nodes) await node.kill();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
