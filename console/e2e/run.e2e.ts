// The page of a run.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { PICTURES, scenario } from "./harness/scenario";
import { Service } from "./harness/service";
import { serve } from "./harness/worker";
import { approval, chain, script, ticket, wait } from "./harness/workflows";

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

scenario("an_approval_is_given_in_the_inbox", async ({ api, page, open }) => {
  await api.save("order", chain(approval("decide", "order.approval", { orderId: 7 })));
  const run = await api.start("order");
  await api.reaches(run, "waiting");
  await open("/inbox");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Nothing waits for you").waitFor();
  await api.reaches(run, "completed");
});

scenario("a_machine_run_is_approved_on_its_page", async ({ api, page, open }) => {
  await api.save("ticket", ticket);
  const run = await api.start("ticket");
  await open(`/runs/${run}`);
  const present = page.locator("[aria-current=step]");
  await present.getByText("Open").waitFor();
  await page.getByRole("button", { name: "Take it" }).click();
  await present.getByText("In review").waitFor();
  expect(await page.getByRole("button", { name: "Send back" }).isDisabled()).toBe(true);
  await page.getByLabel("Comment").fill("looks right");
  await page.getByRole("button", { name: "Approve" }).click();
  await present.getByText("Approved").waitFor();
  await page.locator(".ui-status.pill").getByText("Completed").waitFor();
  await page.getByRole("row", { name: "APPROVE" }).getByText("looks right").waitFor();
});

scenario("a_code_run_shows_its_steps_by_turn", async ({ api, page, open }) => {
  const stop = await serve(api, "onboarding", async (ctx) => {
    const user = await ctx.step.run("create-user", () => ({ id: 7 }));
    ctx.log.info("waits for the user to verify the address");
    await ctx.step.waitForEvent("verified", { event: "verify" });
    await ctx.step.run("send-welcome", () => "sent");
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
