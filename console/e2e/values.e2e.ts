// Large and hostile values.

import { expect } from "vitest";
import { Api } from "./harness/api";
import { expectNone, scenario } from "./harness/scenario";
import { calibrate, longestTask, watchTasks } from "./harness/speed";
import { serveStep } from "./harness/worker";
import { approval, chain, script } from "./harness/workflows";

/** The longest task of the page, in times of the calibration loop. */
const TASK_RATIO_MAX = 25;

scenario(
  "a_five_megabyte_output_does_not_stall_the_page",
  async ({ api, page, open }) => {
    // No output of a step is larger than 1 MiB, and no step has more than 64 KiB of logs. So the five megabytes are the
    // outputs of six steps, which are all in the context of the run.
    const rows = `Array.from({ length: 9_000 }, (_, n) => ({ n, text: "letters ".repeat(10) }))`;
    const ids = ["a", "b", "c", "d", "e", "f"];
    const code = (id: string) => `console.log("line ".repeat(12_000)); return { name: "${id}", rows: ${rows} }`;
    await api.save("large", chain(...ids.map((id) => script(id, code(id), { outputVariable: id }))));
    const run = await api.start("large");
    await api.reaches(run, "completed");
    const context = await api.ask<unknown>("GET", `/v1/runs/${run}/context`);
    expect(JSON.stringify(context).length, "letters of the context").toBeGreaterThan(5_000_000);

    await watchTasks(page);
    await open("/");
    const unit = await calibrate(page);
    await longestTask(page);
    const check = async (what: string) => {
      const ratio = (await longestTask(page)) / unit;
      expect(ratio, `the longest task while ${what}, in times of the calibration loop`).toBeLessThan(TASK_RATIO_MAX);
    };
    const show = (path: string) => page.evaluate((path) => window.history.pushState(null, "", path), path);

    await show(`/runs/${run}?step=f`);
    await page.getByRole("tree", { name: "Output" }).getByText('"f"').waitFor();
    await check("an output is shown");
    await page.getByRole("complementary").getByLabel("Search", { exact: true }).fill("letters");
    await page.getByRole("complementary").locator(".matches").first().waitFor();
    await check("an output is searched");
    await page.getByRole("button", { name: "Show the text" }).click();
    await page.getByRole("complementary").locator("pre").getByText("letters").first().waitFor();
    await check("the text of an output is shown");
    await page.getByRole("complementary").getByText("Logs", { exact: true }).click();
    await page.getByRole("complementary").getByText("line line").waitFor();
    await check("the logs of a step are shown");
    await page.getByRole("complementary").getByLabel("Search in logs").fill("letters");
    await page.getByRole("complementary").getByText("No log lines").waitFor();

    await show(`/runs/${run}?view=context`);
    await page.getByRole("tree").getByText("rows").first().waitFor();
    await check("the context is shown");
    await page.keyboard.press("ArrowLeft");
    await page.getByRole("button", { name: "Back to live" }).waitFor();
    await check("the context of an earlier entry is shown");
    await show(`/runs/${run}?view=logs`);
    await page.getByText("line line").first().waitFor();
    await check("all logs are shown");
    await show(`/runs/${run}?view=journal`);
    await page.getByRole("row", { name: /RunCompleted/ }).waitFor();
    await check("the journal is shown");
  },
  { timeout: 120_000 },
);

scenario("a_long_error_is_shown_to_its_end", async ({ api, page, open }) => {
  const code = `throw new Error("long ".repeat(100) + "the end of the message")`;
  await api.save("long", chain(script("fall", code, { retry: { maxAttempts: 1 } })));
  const run = await api.start("long");
  await api.reaches(run, "failed");
  await open(`/runs/${run}?step=fall`);
  await page.locator(".panel-error").getByText("the end of the message").first().waitFor();
});

const RIGHT_TO_LEFT = "\u202e\u2067";
const HOSTILE = `<img src=x onerror=alert(1)><script>alert(2)</script> javascript:alert(3) ${RIGHT_TO_LEFT} end`;

scenario(
  "hostile_values_are_shown_as_text",
  async ({ api, page, open }) => {
    const act = `
    console.log(ctx.input.text);
    console.log("[link](javascript:alert(4)) https://example.com/<script>alert(5)</script>");
    console.log("x".repeat(60_000));
    if (ctx.input.falls) throw new Error(ctx.input.text);
    return { [ctx.input.text]: ctx.input.text, long: "y".repeat(1_000_000) }`;
    await api.save("hostile", chain(script("act", act, { retry: { maxAttempts: 1 } })));
    const start = (falls: boolean) =>
      api.ask<{ run: { id: string } }>("POST", "/v1/workflows/hostile/runs", {
        input: { text: HOSTILE, falls },
        tags: { tag: HOSTILE },
        idempotencyKey: `${HOSTILE} ${falls}`,
      });
    const [good, bad] = [(await start(false)).run.id, (await start(true)).run.id];
    await api.reaches(good, "completed");
    await api.reaches(bad, "failed");
    const { secret } = await api.ask<{ secret: string }>("POST", "/v1/keys", { name: HOSTILE, role: "operator" });
    await new Api(api.url, secret).start("hostile", { text: HOSTILE, falls: true });
    await api.ask("POST", `/v1/runs/${good}/fork`, {});
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => {
      dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    // Names of the definition: titles of nodes, of an approval and of states; the name of a worker.
    const titled = chain({ ...approval("ask", "hostile.approval"), name: HOSTILE });
    await api.save("titled", titled);
    const asking = await api.start("titled");
    await api.reaches(asking, "waiting");
    await api.save("states", {
      states: [
        { name: "open", title: HOSTILE, initial: true, on: { GO: { title: HOSTILE, to: "done" } } },
        { name: "done", title: HOSTILE, terminal: true },
      ],
    });
    const machine = await api.start("states");
    await api.ask("POST", `/v1/runs/${machine}/transitions`, { action: "GO", comment: HOSTILE });
    const idle = await api.start("states");
    // The name of a step and of its worker, which is connected until all screens were shown.
    const stop = await serveStep(api, "served", HOSTILE, HOSTILE);
    const code = await api.start("served");
    await api.reaches(code, "completed");
    await open("/");
    const screens = [
      `/runs/${asking}`,
      ...["graph", "timeline", "journal"].map((view) => `/runs/${code}?view=${view}`),
      "/inbox",
      `/runs/${machine}`,
      `/runs/${idle}`,
      "/workflows/titled",
      "/workflows/states",
      "/workers",
      "/",
      "/runs",
      "/access/keys",
      "/access/audit",
      `/runs/${bad}?step=act`,
      `/runs/${bad}/diff/${good}?view=output`,
      `/runs?tag.tag=${encodeURIComponent(HOSTILE)}`,
      ...["journal", "logs", "values", "context"].map((view) => `/runs/${bad}?view=${view}`),
      ...["logs", "values", "context"].map((view) => `/runs/${good}?view=${view}`),
    ];
    const wrong: string[] = [];
    for (const path of screens) {
      await page.goto(path);
      const text = page.getByText("onerror=alert(1)").filter({ visible: true }).first();
      const isShown = await text.waitFor({ timeout: 10_000 }).then(
        () => true,
        () => false,
      );
      if (!isShown) wrong.push(`${path} does not show the text`);
      // Marks that change the direction of writing have no effect on the texts around.
      const bidi = isShown ? await text.evaluate((element) => getComputedStyle(element).unicodeBidi) : "isolate";
      if (!/isolate|plaintext/.test(bidi)) wrong.push(`${path} does not isolate the direction of the text`);
      const active = await page.locator("img[src=x], main script, a[href^='javascript:' i]").count();
      if (active > 0) wrong.push(`${path} has elements of the text`);
    }
    await stop();
    expectNone("screens that do not show hostile values as text", wrong);
    await page.goto(`/runs/${good}?step=act`);
    await page.getByRole("tree", { name: "Output" }).getByText("long").waitFor();
    await page.getByRole("button", { name: "Show the text" }).click();
    await page.getByRole("complementary").locator("pre").getByText("yyyy").first().waitFor();
    // Half of a surrogate pair is no text: the server rejects the output, and the page shows why.
    await api.save("half", chain(script("act", `return "\\ud800 alone"`, { retry: { maxAttempts: 1 } })));
    const half = await api.start("half");
    await api.reaches(half, "failed");
    await page.goto(`/runs/${half}?step=act`);
    await page.locator(".panel-error").getByText("PAYLOAD_UNREADABLE").waitFor();
    expect(dialogs).toEqual([]);
  },
  { timeout: 180_000 },
);
