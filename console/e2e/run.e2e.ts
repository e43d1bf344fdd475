// The page of a run.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { openSignedIn, PICTURES, scenario } from "./harness/scenario";
import { Service } from "./harness/service";
import { until } from "./harness/until";
import { serve } from "./harness/worker";
import { approval, chain, script, ticket, wait } from "./harness/workflows";

/** A decision about a run that has changed: the server answers it with a conflict, which the browser reports. */
const CONFLICT = /409 \(Conflict\).*\/signals\/order\.approval/;

scenario("a_run_is_coloured_live_and_ends", async ({ api, page, open }) => {
  await api.save("gates", chain(script("first", "return 1"), wait("gate", "go"), script("last", "return 2")));
  const run = await api.start("gates");
  await open(`/runs/${run}`);
  await page.getByRole("button", { name: "first Completed" }).waitFor();
  await page.getByRole("button", { name: "gate Waiting" }).waitFor();
  await page.getByLabel("last not reached").waitFor();
  const status = page.locator(".ui-status.pill");
  await status.getByText("Waiting").waitFor();
  await api.signal(run, "go");
  await page.getByRole("button", { name: "last Completed" }).waitFor();
  await page.getByRole("button", { name: "gate Completed" }).waitFor();
  await status.getByText("Completed").waitFor();
});

scenario("why_it_waits_is_said_and_an_approval_lets_it_go", async ({ api, page, open }) => {
  const decide = approval("decide", "order.approval", { orderId: 7 });
  await api.save("order", chain(decide, script("ship", "return 1")));
  const run = await api.start("order");
  await open(`/runs/${run}`);
  const sentence = page.locator(".run-sentence");
  await sentence.getByText("order.approval").waitFor();
  await sentence.getByText("approval", { exact: false }).first().waitFor();
  await sentence.getByLabel("Comment").fill("fine with me");
  await sentence.getByRole("button", { name: "Approve" }).click();
  await page.locator(".ui-status.pill").getByText("Completed").waitFor();
  await page.getByRole("button", { name: "decide Completed" }).click();
  await page.getByText("fine with me").first().waitFor();
});

scenario("each_approval_has_a_comment_of_its_own", async ({ api, page, open }) => {
  const { nodes, edges } = chain(approval("first", "first.approval"), approval("second", "second.approval"));
  // A rejection leaves a node by a handle of its own.
  const rejected = { source: "second", sourceHandle: "rejected", target: "end" };
  await api.save("order", { nodes, edges: [...edges, rejected] });
  const run = await api.start("order");
  await open(`/runs/${run}`);
  const sentence = page.locator(".run-sentence");
  await sentence.getByText("first.approval").waitFor();
  await sentence.getByLabel("Comment").fill("only for the first");
  await sentence.getByRole("button", { name: "Approve" }).click();
  await sentence.getByText("second.approval").waitFor();
  expect(await sentence.getByLabel("Comment").inputValue()).toBe("");
  await sentence.getByRole("button", { name: "Reject" }).click();
  await api.reaches(run, "completed");
  const output = (step: string) => api.ask<{ output: unknown }>("GET", `/v1/runs/${run}/steps/${step}`);
  expect((await output("first")).output).toEqual({ approved: true, comment: "only for the first" });
  expect((await output("second")).output).toEqual({ approved: false });
});

scenario(
  "a_decision_after_a_lost_reply_shows_what_was_recorded",
  async ({ api, page, open, colleague }) => {
    await api.save("order", chain(approval("decide", "order.approval"), wait("pack", "packed")));
    const [onPage = "", inInbox = ""] = await api.startMany("order", 2, () => ({}));
    for (const run of [onPage, inInbox]) await api.reaches(run, "waiting");
    const other = await colleague();
    await openSignedIn(other, `/inbox?item=${encodeURIComponent(`${inInbox}/decide`)}`, api.key);
    await open(`/runs/${onPage}`);
    for (const one of [page, other]) {
      await one.getByRole("button", { name: "Approve" }).waitFor();
      // The server applies the approval, and no reply to it arrives. The page still shows the wait.
      await one.route(/\/v1\/(runs\/[^/?]+$|inbox)/, (route) => route.abort());
      await one.route("**/signals/*", async (route) => {
        await route.fetch();
        await route.abort();
      });
      await one.getByRole("button", { name: "Approve" }).click();
      await one.getByText("The outcome is not known yet").waitFor();
    }
    for (const run of [onPage, inInbox]) {
      await until("the approval to be recorded", async () => {
        const { output } = await api.ask<{ output: unknown }>("GET", `/v1/runs/${run}/steps/decide`);
        return JSON.stringify(output) === '{"approved":true}';
      });
    }
    for (const one of [page, other]) await one.unroute("**/signals/*");
    const notices = (one: Page) => one.getByRole("region", { name: "Notices" });
    // The same request has the reply of the first one. It is repeated by itself, or by the person.
    await notices(page).getByText("Recorded before: Approved").waitFor();
    await notices(other).getByText("Recorded before: Approved").waitFor();
    // Another decision is another request: it does not have that reply.
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByText("The run changed while you looked at it: StepCompleted decide").waitFor();
    expect(await notices(page).getByText("Rejected", { exact: true }).count()).toBe(0);
  },
  { expects: [/net::ERR_FAILED/, CONFLICT] },
);

scenario("an_approval_is_given_in_the_inbox", async ({ api, page, open }) => {
  await api.save("order", chain(approval("decide", "order.approval", { orderId: 7 })));
  const run = await api.start("order");
  await api.reaches(run, "waiting");
  await open("/inbox");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Nothing waits for you").waitFor();
  await api.reaches(run, "completed");
});

scenario("an_inbox_of_many_pages_is_read_to_its_end", async ({ api, page, open }) => {
  const count = 205;
  await api.save("order", chain(approval("decide", "order.approval")));
  await api.startMany("order", count, () => ({}));
  await until("all approvals to be open", async () => {
    const { cursor, first } = await api
      .ask<{ inbox: unknown[]; nextCursor: string | null }>("GET", "/v1/inbox?limit=200")
      .then((page) => ({ cursor: page.nextCursor, first: page.inbox.length }));
    if (cursor === null) return false;
    const next = await api.ask<{ inbox: unknown[] }>("GET", `/v1/inbox?limit=200&cursor=${encodeURIComponent(cursor)}`);
    return first + next.inbox.length === count;
  });
  await open("/inbox");
  const rows = page.locator(".inbox-row");
  await rows.nth(199).waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await rows.nth(count - 1).waitFor();
  expect(await page.getByRole("button", { name: "Load more" }).count()).toBe(0);
});

scenario(
  "a_decision_that_came_too_late_is_reported",
  async ({ api, page, open, colleague }) => {
    await api.save("order", chain(approval("decide", "order.approval", { orderId: 7 }), wait("pack", "packed")));
    const run = await api.start("order");
    await api.reaches(run, "waiting");
    // Pages whose reads fail still show the wait after another person has decided.
    const late = await colleague();
    await openSignedIn(late, `/runs/${run}`, api.key);
    await late.locator(".run-sentence").getByRole("button", { name: "Approve" }).waitFor();
    await open("/inbox");
    await page.getByRole("button", { name: "Approve" }).waitFor();
    for (const one of [page, late])
      await one.route("**/v1/**", (route) => (route.request().method() === "GET" ? route.abort() : route.continue()));
    await api.signal(run, "order.approval", { orderId: 7, approved: true });
    for (const one of [page, late]) {
      await one.getByRole("button", { name: "Approve" }).click();
      await one.getByText("The run changed while you looked at it").waitFor();
      expect(await one.getByRole("region", { name: "Notices" }).getByText("Approved", { exact: true }).count()).toBe(0);
    }
  },
  { expects: [/net::ERR_FAILED/, CONFLICT] },
);

scenario("a_machine_run_is_approved_on_its_page", async ({ api, page, open }) => {
  await api.save("ticket", ticket);
  const run = await api.start("ticket");
  await open(`/runs/${run}`);
  const present = page.locator("[aria-current=step]");
  await present.getByText("Open").waitFor();
  const sentence = page.locator(".run-sentence-text");
  await sentence.filter({ hasText: /^is in open since (\w+ \d+, )?\d\d:\d\d:\d\d: TAKE/ }).waitFor();
  await page.getByRole("button", { name: "Take it" }).click();
  await present.getByText("In review").waitFor();
  expect(await page.getByRole("button", { name: "Send back" }).isDisabled()).toBe(true);
  await page.getByLabel("Comment").fill("looks right");
  await page.getByRole("button", { name: "Approve" }).click();
  await present.getByText("Approved").waitFor();
  await page.locator(".ui-status.pill").getByText("Completed").waitFor();
  await page.getByRole("row", { name: "APPROVE" }).getByText("looks right").waitFor();
});

scenario("the_slider_shows_a_machine_as_it_was", async ({ api, page, open }) => {
  await api.save("ticket", ticket);
  const run = await api.start("ticket");
  await api.ask("POST", `/v1/runs/${run}/transitions`, { action: "TAKE" });
  await open(`/runs/${run}`);
  const present = page.locator("[aria-current=step]");
  await present.getByText("In review").waitFor();
  await page.getByRole("row", { name: "TAKE" }).waitFor();
  const { entries } = await api.ask<{ entries: { seq: number; to: string }[] }>("GET", `/v1/runs/${run}/history`);
  const entered = entries.find((entry) => entry.to === "open")?.seq;
  await page.evaluate((seq) => window.history.pushState(null, "", `?at=${seq}`), entered);
  await present.getByText("Open").waitFor();
  await page.locator(".run-sentence").getByText("is in the state open").waitFor();
  await page.getByRole("row", { name: "TAKE" }).waitFor({ state: "detached" });
  expect(await page.getByRole("button", { name: "Approve" }).count(), "the past cannot be changed").toBe(0);
  await page.keyboard.press("l");
  await present.getByText("In review").waitFor();
  await page.getByRole("row", { name: "TAKE" }).waitFor();
});

scenario("a_code_run_shows_its_steps_by_turn", async ({ api, page, open }) => {
  let welcome = (): void => undefined;
  const welcomed = new Promise<string>((resolve) => {
    welcome = () => resolve("sent");
  });
  const stop = await serve(api, "onboarding", async (ctx) => {
    const user = await ctx.step.run("create-user", () => ({ id: 7 }));
    ctx.log.info("waits for the user to verify the address");
    await ctx.step.waitForEvent("verified", { event: "verify" });
    await ctx.step.run("send-welcome", () => welcomed);
    return user;
  });
  try {
    const run = await api.start("onboarding");
    await api.reaches(run, "waiting");
    await open(`/runs/${run}`);
    const steps = page.locator(".step-line");
    await steps.filter({ hasText: "create-user" }).waitFor();
    await page.getByText("worker of the scenario").first().waitFor();
    await steps.filter({ hasText: "verified" }).getByText("Waiting").first().waitFor();
    await api.signal(run, "verify");
    // A run with a step in progress is in the memory of a node.
    await page.locator(".run-fact").filter({ hasText: "Node" }).waitFor();
    welcome();
    await steps.filter({ hasText: "send-welcome" }).click();
    await page.getByRole("complementary").getByText("sent").waitFor();
    await page.locator(".ui-status.pill").getByText("Completed").first().waitFor();
    // The run continued with another turn.
    await page.getByText("Turn 2").waitFor();
    mkdirSync(PICTURES, { recursive: true });
    await page.screenshot({ path: join(PICTURES, "run-code.png") });
  } finally {
    await stop();
  }
});

scenario("a_failed_run_is_retried_from_its_step", async ({ api, page, open }) => {
  const service = await Service.start();
  try {
    const charge = { id: "charge", type: "http", retry: { maxAttempts: 1 }, config: { url: service.url } };
    await api.save("payment", chain(script("prepare", "return 1"), charge));
    service.status = 500;
    const run = await api.start("payment");
    await api.reaches(run, "failed");
    await open(`/runs/${run}`);
    await page.getByRole("button", { name: "charge Failed" }).waitFor();
    await page.locator(".run-sentence.is-failed").waitFor();
    service.status = 200;
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
    await page.getByRole("button", { name: "charge Completed" }).waitFor();
    await page.locator(".ui-status.pill").getByText("Completed").waitFor();
    await page.getByRole("tab", { name: /Journal/ }).click();
    await page.getByRole("row", { name: /RunRetried/ }).waitFor();
    expect(service.requests, "the failed step is performed again").toBe(2);
    expect(
      await page
        .getByRole("row", { name: /StepCompleted/ })
        .getByText("prepare")
        .count(),
    ).toBe(1);
  } finally {
    service.stop();
  }
});

scenario("the_slider_shows_the_run_as_it_was", async ({ api, page, open }) => {
  await api.save("two", chain(script("first", "return 1"), script("second", "return 2")));
  const run = await api.start("two");
  const { version } = await api.reaches(run, "completed");
  await open(`/runs/${run}`);
  await page.getByRole("button", { name: "second Completed" }).waitFor();
  await page.getByText(`${version} / ${version}`).waitFor();
  await page.keyboard.press("Home");
  await page.getByText(`1 / ${version}`).waitFor();
  await page.getByLabel("second not reached").waitFor();
  expect(new URL(page.url()).searchParams.get("at")).toBe("1");
  await page.keyboard.press("ArrowRight");
  await page.getByText(`2 / ${version}`).waitFor();
  await page.reload();
  await page.getByText(`2 / ${version}`).waitFor();
  await page.keyboard.press("l");
  await page.getByRole("button", { name: "second Completed" }).waitFor();
  expect(new URL(page.url()).searchParams.get("at")).toBeNull();
});

scenario("a_child_run_opens_in_the_timeline_of_its_parent", async ({ api, page, open }) => {
  await api.save("inner", chain(script("deep", "return 1"), wait("hold", "go"), script("after", "return 2")));
  await api.save("outer", chain({ id: "call", type: "workflow", config: { workflow: "inner" } }));
  const run = await api.start("outer");
  await api.reaches(run, "waiting");
  await open(`/runs/${run}?view=timeline`);
  const rows = page.getByRole("tree", { name: "Timeline" }).getByRole("treeitem");
  await rows.filter({ hasText: "call" }).getByRole("button", { name: "Open", exact: true }).click();
  await rows.filter({ hasText: "deep" }).waitFor();
  expect(await rows.filter({ hasText: "deep" }).getAttribute("aria-level")).toBe("2");
  expect(page.url(), "the page of the parent stays").toContain(run);
  // The child is followed like its parent.
  const { runs } = await api.ask<{ runs: { id: string }[] }>("GET", `/v1/runs?parent=${run}`);
  await api.signal(runs[0]?.id ?? "", "go");
  await rows.filter({ hasText: "after" }).waitFor();
  await rows.filter({ hasText: "call" }).getByRole("button", { name: "Close", exact: true }).click();
  await rows.filter({ hasText: "deep" }).waitFor({ state: "detached" });
});

scenario("a_fork_at_an_entry_shows_what_is_not_undone", async ({ api, page, open }) => {
  const service = await Service.start();
  try {
    const charge = { id: "charge", type: "http", config: { url: service.url } };
    await api.save("payment", chain(charge, script("ship", "return 1")));
    const run = await api.start("payment");
    const { version } = await api.reaches(run, "completed");
    // The fork shares the entries of the original until the charge is dispatched.
    await open(`/runs/${run}?at=2`);
    await page.getByText(`2 / ${version}`).waitFor();
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: /^Fork/ }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("after entry 2").waitFor();
    await dialog.getByRole("button", { name: "Fork" }).click();
    await dialog.getByText("not undone").waitFor();
    await dialog.getByText("charge").waitFor();
    await dialog.getByRole("button", { name: "Open the fork" }).click();
    await page.waitForURL((url) => !url.pathname.includes(run));
    await page.getByText("Fork of").waitFor();
    await page.locator(".ui-status.pill").getByText("Completed").waitFor();
    expect(service.requests, "the fork charges again, as the dialog says").toBe(2);
  } finally {
    service.stop();
  }
});

scenario("two_runs_are_compared_to_their_first_divergence", async ({ api, page, open }) => {
  await api.save("price", chain(script("same", "return 1"), script("sum", "return ctx.input.pieces * 2")));
  const [a, b] = [await api.start("price", { pieces: 1 }), await api.start("price", { pieces: 2 })];
  await api.reaches(a, "completed");
  await api.reaches(b, "completed");
  await open(`/runs/${a}/diff/${b}`);
  // The first step has the input as its output, so the runs diverge there; one of the later steps is the same.
  const lines = page.locator(".diff-row");
  await lines.filter({ hasText: "first divergence" }).getByText("start").waitFor();
  await lines.filter({ hasText: "sum" }).getByText("output").waitFor();
});

scenario("a_loop_of_2500_is_one_node", async ({ api, page, open }) => {
  await api.save("loop", loopOf(2_500));
  const run = await api.start("loop");
  await api.reaches(run, "completed");
  await open(`/runs/${run}`);
  await page.getByRole("button", { name: "work Completed" }).getByText("×2,500").waitFor();
  expect(await page.locator(".canvas-node").count(), "nodes of the drawing").toBeLessThan(8);
  await page.getByRole("button", { name: "work Completed" }).click();
  await page.getByText("2,500 iterations").waitFor();
});

function loopOf(count: number) {
  const each = { sourceVariable: Array.from({ length: count }, (_, n) => n), maxIterations: count, concurrency: 50 };
  return {
    nodes: [
      { id: "start", type: "start" },
      { id: "each", type: "loop", config: each },
      { id: "work", type: "transform", config: { value: "{{ctx.item}}" } },
      { id: "end", type: "end" },
    ],
    edges: [
      { source: "start", target: "each" },
      { source: "each", target: "work", sourceHandle: "loop" },
      { source: "work", target: "each" },
      { source: "each", target: "end", sourceHandle: "done" },
    ],
  };
}
