// Live updates over outages and many tabs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { Api } from "./harness/api";
import { openSignedIn, scenario } from "./harness/scenario";
import { Server } from "./harness/server";
import { until } from "./harness/until";
import { chain, script, wait } from "./harness/workflows";

/** The longest pause of the page before it connects again is 30 s, to which a busy machine adds. */
const RECONNECT_TIMEOUT = 60_000;

const STEPS = 30;

interface Gated {
  status: string;
  open: { event?: string }[];
}

/** Opens all gates of a run, while the server may be away. */
async function passGates(api: Api, run: string, gates: number): Promise<void> {
  for (let n = 0; n < gates; n += 1) {
    // A signal that comes before its wait is ignored; one whose reply was lost may have been applied.
    await until(`the gate ${n} to open`, async () => {
      const answer = (await api.signal(run, `go.${n}`).catch(() => null)) as { outcome: string } | null;
      if (answer?.outcome === "accepted") return true;
      const document = await api.ask<Gated>("GET", `/v1/runs/${run}`).catch(() => null);
      if (document?.status === "completed") return true;
      return document?.open.some((open) => open.event === `go.${n + 1}`) ?? false;
    });
  }
}

/** The seqs of all rows of the journal, from the first to the last one. The table draws only those around the active row. */
async function readSeqs(page: Page, count: number): Promise<number[]> {
  const seqs: number[] = [];
  await page.getByRole("grid").focus();
  await page.keyboard.press("Home");
  for (let place = 2; place <= count + 1; place += 1) {
    const row = page.locator(`[role=rowgroup] [role=row][aria-rowindex="${place}"]`);
    const label = await row.getAttribute("aria-label");
    seqs.push(Number(label?.split(" ")[0]));
    await page.keyboard.press("ArrowDown");
  }
  return seqs;
}

scenario(
  "the_server_dies_and_comes_back_and_nothing_is_missed_or_doubled",
  async ({ page }) => {
    const folder = mkdtempSync(join(tmpdir(), "everstep-console-"));
    const server = await Server.start(join(folder, "data"));
    try {
      const api = new Api(server.url, server.key);
      const gates = Array.from({ length: STEPS }, (_, n) => [
        wait(`gate${n}`, `go.${n}`),
        script(`work${n}`, "return 1"),
      ]);
      await api.save("gates", chain(...gates.flat(), wait("last", `go.${STEPS}`)));
      const run = await api.start("gates");
      await api.reaches(run, "waiting");
      await openSignedIn(page, `${server.url}/runs/${run}?view=journal`, server.key);
      await page.getByRole("row", { name: /RunStarted/ }).waitFor();
      await page.getByLabel("Live", { exact: true }).waitFor();
      // The server is killed while it writes entries, and writes others before the page is connected again.
      const passed = passGates(api, run, STEPS + 1);
      await until("the run to be in its middle", async () => (await api.run(run)).version > 4 * (STEPS / 3));
      await server.kill();
      await page.getByLabel("Not live: reconnecting").waitFor();
      await server.begin();
      await passed;
      const { version } = await api.reaches(run, "completed");
      await page.locator(`[role=grid][aria-rowcount="${version + 1}"]`).waitFor({ timeout: RECONNECT_TIMEOUT });
      await page.getByText("Not live since", { exact: false }).waitFor({ state: "detached" });
      expect(await readSeqs(page, version)).toEqual(Array.from({ length: version }, (_, index) => index + 1));
    } finally {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  { expects: [/net::ERR_/, /WebSocket/, /503/], timeout: 240_000 },
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

const GATES = 60;

scenario("a_busy_run_is_read_once_per_second", async ({ api, page, open }) => {
  const gates = Array.from({ length: GATES }, (_, n) => wait(`gate${n}`, `go.${n}`));
  await api.save("gates", chain(...gates, script("last", "return 7", { outputVariable: "last" })));
  const run = await api.start("gates");
  await open(`/runs/${run}?view=context`);
  await page.getByRole("heading", { name: "Changed by entry" }).waitFor();
  const reads = { context: 0, document: 0 };
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname === `/v1/runs/${run}/context`) reads.context += 1;
    if (pathname === `/v1/runs/${run}`) reads.document += 1;
  });
  const begun = performance.now();
  for (let n = 0; n < GATES; n += 1) {
    // A signal that comes before its wait changes nothing.
    await until(`the gate ${n} to open`, async () => {
      const { outcome } = (await api.signal(run, `go.${n}`)) as { outcome: string };
      return outcome === "accepted";
    });
  }
  const { version } = await api.reaches(run, "completed");
  // The last entry is shown, however many came before it.
  await page.getByRole("heading", { name: `Changed by entry ${version}` }).waitFor();
  await page.locator(".ui-status.pill").getByText("Completed").waitFor();
  const periods = Math.ceil((performance.now() - begun) / 1_000) + 2;
  // The context of an entry, and that of the entry before it.
  expect(reads.context, "requests for the context").toBeLessThanOrEqual(2 * periods);
  expect(reads.document, "requests for the document").toBeLessThanOrEqual(periods);
});

scenario("loaded_lines_of_a_log_stay_while_it_grows", async ({ api, page, open }) => {
  const lines = (count: number) => `for (let n = 0; n < ${count}; n += 1) console.log("line", n)`;
  const last = script("last", `console.log("at last")`);
  await api.save("logs", chain(script("many", lines(600)), script("more", lines(10)), wait("gate", "go"), last));
  const run = await api.start("logs");
  await api.reaches(run, "waiting");
  await open(`/runs/${run}?view=logs`);
  await page.getByText("600 lines").waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("610 lines").waitFor();
  await page.getByLabel("Live", { exact: true }).waitFor();
  await api.signal(run, "go");
  await page.getByText("at last").waitFor();
  await page.getByText("611 lines").waitFor();
});

scenario("a_log_of_many_lines_is_read_to_its_end", async ({ api, page, open }) => {
  const code = `for (let n = 0; n < 2_500; n += 1) console.log("line", n)`;
  await api.save("logs", chain(script("many", code)));
  const run = await api.start("logs");
  await api.reaches(run, "completed");
  await open(`/runs/${run}?view=logs`);
  for (let loaded = await page.getByText(/^[\d,]+ lines$/).innerText(); loaded !== "2,500 lines"; ) {
    await page.getByRole("button", { name: "Load more" }).click();
    await page.getByText(loaded, { exact: true }).waitFor({ state: "detached" });
    loaded = await page.getByText(/^[\d,]+ lines$/).innerText();
  }
  await page.getByText("2,000 of 2,500 lines are shown").waitFor();
  expect(await page.getByText("line 2499", { exact: true }).count()).toBe(0);
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("line 2499", { exact: true }).waitFor();
  await page.getByText("lines are shown").waitFor({ state: "detached" });
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
