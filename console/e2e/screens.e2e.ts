// Every screen: accessible in both themes, within the content security policy, and without a request to elsewhere.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { Api } from "./harness/api";
import { expectNone, scenario } from "./harness/scenario";
import { approval, chain, hello, script, ticket } from "./harness/workflows";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = resolve(import.meta.dirname, "../../target/console-pictures");

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

interface Runs {
  done: string;
  failed: string;
  asking: string;
  machine: string;
}

/** A workspace with a run of each kind. */
async function fill(api: Api): Promise<Runs> {
  await api.save("hello", hello);
  await api.save("order", chain(approval("decide", "order.approval", { orderId: 7 }), script("ship", "return 1")));
  await api.save("payment", chain(script("charge", `throw new Error("declined")`, { retry: { maxAttempts: 1 } })));
  await api.save("ticket", ticket);
  const runs = {
    done: await api.start("hello", { name: "Ada" }),
    failed: await api.start("payment", { order: { id: 7 } }),
    asking: await api.start("order", { orderId: 7, lines: [{ article: "lamp", pieces: 2 }] }),
    machine: await api.start("ticket", { question: "When do you open?" }),
  };
  await api.reaches(runs.done, "completed");
  await api.reaches(runs.failed, "failed");
  await api.reaches(runs.asking, "waiting");
  return runs;
}

/** The screens, with a text that is there when the screen is complete. */
function screens(runs: Runs): Record<string, [string, string]> {
  return {
    overview: ["/", "Longest waiting runs"],
    runs: ["/runs", "payment"],
    "runs-failed": ["/runs?status=failed", "payment"],
    "run-graph": [`/runs/${runs.done}`, "greet"],
    "run-step": [`/runs/${runs.done}?step=greet`, "Hello, Ada!"],
    "run-timeline": [`/runs/${runs.done}?view=timeline`, "greet"],
    "run-journal": [`/runs/${runs.done}?view=journal`, "RunCompleted"],
    "run-context": [`/runs/${runs.done}?view=context`, "jsResult"],
    "run-logs": [`/runs/${runs.done}?view=logs`, "No log lines"],
    "run-failed": [`/runs/${runs.failed}?step=charge`, "declined"],
    "run-approval": [`/runs/${runs.asking}`, "order.approval"],
    "run-machine": [`/runs/${runs.machine}`, "Take it"],
    diff: [`/runs/${runs.done}/diff/${runs.done}`, "do not differ"],
    workflows: ["/workflows", "ticket"],
    workflow: ["/workflows/hello", "greet"],
    "workflow-machine": ["/workflows/ticket", "ticket"],
    inbox: ["/inbox", "order.approval"],
    workers: ["/workers", "No worker is connected"],
    keys: ["/access/keys", "Create API key"],
    secrets: ["/access/secrets", "Set a secret"],
    sources: ["/access/sources", "Add a data source"],
    queries: ["/access/queries", "Save a query"],
    audit: ["/access/audit", "Audit log"],
    nothing: ["/no/such/page", "Nothing here"],
  };
}

/** The rules that the page breaks, each with the elements. The announcer of the library is empty between its messages. */
async function violations(page: Page): Promise<string[]> {
  return page.evaluate(`(async () => {
    const { violations } = await axe.run({ exclude: ["[data-live-announcer]"] }, { resultTypes: ["violations"] });
    return violations.map((one) => one.id + ": " + one.help + " " + one.nodes.map((node) => node.html).join(" | "));
  })()`);
}

scenario(
  "every_screen_is_accessible_in_both_themes",
  async ({ api, page, open }) => {
    const runs = await fill(api);
    const wrong: string[] = [];
    mkdirSync(PICTURES, { recursive: true });
    const check = async (name: string) => {
      for (const theme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
        for (const violation of await violations(page)) wrong.push(`${name} (${theme}): ${violation}`);
        await page.screenshot({ path: join(PICTURES, `${name}-${theme}.png`) });
      }
    };
    await page.goto("/");
    await page.getByLabel("API key or token").waitFor();
    await page.evaluate(axe);
    await check("sign-in");
    await open("/");
    await page.evaluate(axe);
    for (const [name, [path, text]] of Object.entries(screens(runs))) {
      // As a link of the console does, without loading the page again.
      await page.evaluate((path) => window.history.pushState(null, "", path), path);
      await page.getByRole("main").getByText(text).filter({ visible: true }).first().waitFor();
      await check(name);
    }
    expectNone("rules of accessibility that screens break", wrong);
  },
  { timeout: 180_000 },
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
