// Every screen of the console, in a workspace with a run of each kind.

import type { Page } from "playwright-core";
import type { Api } from "./api";
import { type Say, say } from "./locale";
import { until } from "./until";
import { serve, WORKER_NAME } from "./worker";
import { approval, chain, hello, script, ticket } from "./workflows";

export interface Runs {
  done: string;
  /** Of the same workflow, with another input. */
  other: string;
  failed: string;
  asking: string;
  machine: string;
  /** A run of the same machine that has left its first state. */
  taken: string;
  code: string;
}

/** A workspace with a run of each kind. */
export async function fill(api: Api): Promise<Runs> {
  await api.save("hello", hello);
  await api.save("order", chain(approval("decide", "order.approval", { orderId: 7 }), script("ship", "return 1")));
  await api.save("payment", chain(script("charge", `throw new Error("declined")`, { retry: { maxAttempts: 1 } })));
  await api.save("ticket", ticket);
  const runs = {
    done: await api.start("hello", { name: "Ada" }),
    other: await api.start("hello", { name: "Bo" }),
    failed: await api.start("payment", { order: { id: 7 } }),
    asking: await api.start("order", { orderId: 7, lines: [{ article: "lamp", pieces: 2 }] }),
    machine: await api.start("ticket", { question: "When do you open?" }),
    taken: await api.start("ticket", { question: "Where are you?" }),
    code: await runCode(api),
  };
  await api.ask("POST", `/v1/runs/${runs.taken}/transitions`, { action: "TAKE" });
  await api.reaches(runs.done, "completed");
  await api.reaches(runs.other, "completed");
  await api.reaches(runs.failed, "failed");
  await api.reaches(runs.asking, "waiting");
  return runs;
}

/** A run of a function, whose worker has left. */
async function runCode(api: Api): Promise<string> {
  const stop = await serve(api, "onboarding", async (ctx) => {
    ctx.log.info("creates the user");
    return ctx.step.run("create-user", () => ({ id: 7 }));
  });
  try {
    const run = await api.start("onboarding", { name: "Ada" });
    await api.reaches(run, "completed");
    return run;
  } finally {
    await stop();
    await until("the worker to leave", async () => {
      const { workers } = await api.ask<{ workers: unknown[] }>("GET", "/v1/workers");
      return workers.length === 0;
    });
  }
}

export interface Screen {
  name: string;
  path: string;
  /** A text that the screen has when it is complete. */
  text: string;
}

export function screens(runs: Runs): Screen[] {
  const list: Array<[string, string, string]> = [
    ["overview", "/", "Longest waiting runs"],
    ["runs", "/runs", "payment"],
    ["runs-failed", "/runs?status=failed", "payment"],
    ["runs-none", "/runs?status=paused", "No run matches"],
    ["run-graph", `/runs/${runs.done}`, "greet"],
    ["run-step", `/runs/${runs.done}?step=greet`, "Hello, Ada!"],
    ["run-past", `/runs/${runs.done}?at=2`, "Back to live"],
    ["run-timeline", `/runs/${runs.done}?view=timeline`, "greet"],
    ["run-journal", `/runs/${runs.done}?view=journal`, "RunCompleted"],
    ["run-context", `/runs/${runs.done}?view=context`, "jsResult"],
    ["run-logs", `/runs/${runs.done}?view=logs`, "No log lines"],
    ["run-values", `/runs/${runs.done}?view=values`, "Hello, Ada!"],
    ["run-failed", `/runs/${runs.failed}?step=charge`, "declined"],
    ["run-approval", `/runs/${runs.asking}`, "order.approval"],
    ["run-code", `/runs/${runs.code}`, "create-user"],
    ["run-machine", `/runs/${runs.machine}`, "Take it"],
    ["run-machine-past", `/runs/${runs.taken}?at=2`, "Back to live"],
    ["diff", `/runs/${runs.done}/diff/${runs.other}`, "first divergence"],
    ["diff-graph", `/runs/${runs.done}/diff/${runs.other}?view=graph`, "greet"],
    ["diff-same", `/runs/${runs.done}/diff/${runs.done}`, "The runs do not differ"],
    ["workflows", "/workflows", "JAVASCRIPT_ERROR"],
    ["workflow", "/workflows/hello", "greet"],
    ["workflow-runs", "/workflows/hello?view=runs", "All runs of this workflow"],
    ["workflow-versions", "/workflows/hello?view=versions", "Digest"],
    ["workflow-figures", "/workflows/hello?view=figures", "Durations"],
    ["workflow-definition", "/workflows/hello?view=definition", "javascript"],
    ["workflow-machine", "/workflows/ticket", "In review"],
    ["inbox", "/inbox", "order.approval"],
    ["workers", "/workers", "No worker is connected"],
    ["keys", "/access/keys", "Create API key"],
    ["secrets", "/access/secrets", "Set a secret"],
    ["sources", "/access/sources", "Add a data source"],
    ["queries", "/access/queries", "Save a query"],
    ["audit", "/access/audit", "Audit log"],
    ["nothing", "/no/such/page", "Nothing here"],
  ];
  return list.map(([name, path, text]) => ({ name, path, text }));
}

/** The screens of a workspace without runs, workflows and decisions. */
export const EMPTY_SCREENS: readonly Screen[] = [
  { name: "empty-overview", path: "/", text: "No runs yet" },
  { name: "empty-runs", path: "/runs", text: "No runs yet" },
  { name: "empty-inbox", path: "/inbox", text: "Nothing waits for you" },
  { name: "empty-workflows", path: "/workflows", text: "No workflows yet" },
];

/** Connects a worker while its screen is used. */
export async function withWorker(api: Api, use: (screen: Screen) => Promise<void>): Promise<void> {
  const stop = await serve(api, "onboarding", async () => null);
  try {
    await use({ name: "workers-connected", path: "/workers", text: WORKER_NAME });
  } finally {
    await stop();
  }
}

/** The screens for admins of the default workspace. */
export const ADMIN_SCREENS: readonly Screen[] = [
  { name: "nodes", path: "/nodes", text: "this node" },
  { name: "workspaces", path: "/access/workspaces", text: "fetch in scripts" },
];

export interface DialogPlace {
  name: string;
  path: string;
  /** The button that opens it, or a menu. */
  button: string;
  /** The entry of the menu. */
  item?: string;
}

export function dialogs(runs: Runs): DialogPlace[] {
  const list: Array<[string, string, string, string?]> = [
    ["dialog-start", "/workflows/hello", "Start"],
    ["dialog-start-again", `/runs/${runs.done}`, "Start again"],
    ["dialog-retry", `/runs/${runs.failed}`, "Retry"],
    ["dialog-fork", `/runs/${runs.failed}`, "Fork"],
    ["dialog-pause", `/runs/${runs.asking}`, "Pause"],
    ["dialog-cancel", `/runs/${runs.asking}`, "Cancel run"],
    ["dialog-signal", `/runs/${runs.asking}`, "More actions", "Signal"],
    ["dialog-bulk", "/runs", "All that match", "Cancel runs"],
    ["dialog-key", "/access/keys", "Create API key"],
    ["dialog-secret", "/access/secrets", "Set a secret"],
    ["dialog-source", "/access/sources", "Add a data source"],
    ["dialog-query", "/access/queries", "Save a query"],
  ];
  return list.map(([name, path, button, item]) => ({ name, path, button, item }));
}

/** Opens a dialog as a person does. `translate` gives the texts of its controls. */
export async function openDialog(
  page: Page,
  { path, button, item }: DialogPlace,
  translate: Say = say.en,
): Promise<void> {
  await page.evaluate((path) => window.history.pushState(null, "", path), path);
  await page
    .getByRole("main")
    .getByRole("button", { name: translate(button), exact: true })
    .click();
  if (item !== undefined) await page.getByRole("menuitem", { name: translate(item), exact: true }).click();
  await anyDialog(page).waitFor();
}

export async function closeDialog(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await anyDialog(page).waitFor({ state: "detached" });
}

/** The dialog that is open. A menu has the role of one too, also while it disappears. */
export function anyDialog(page: Page) {
  return page.locator("[role=dialog]:not(.ui-popover), [role=alertdialog]");
}

/** Refuses a request of the page, as a server does that cannot read its database. */
export async function refuse(page: Page, path: string): Promise<void> {
  const problem = { type: "about:blank", title: "Service Unavailable", status: 500, code: "DATABASE_ERROR" };
  const body = JSON.stringify({ ...problem, detail: "the database does not answer", hint: "try again soon" });
  await page.route(path, (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body }));
}

/** The workspace page after `fillQuotas`. */
export const QUOTAS_SCREEN: Screen = {
  name: "workspaces-quotas",
  path: "/access/workspaces",
  text: "The quota is reached: the server rejects requests that would exceed it.",
};

/**
 * Replaces the quotas that the page reads: one is reached, one is used to 90 %, and one to less. Those of the server are
 * too large for a scenario to reach.
 */
export async function fillQuotas(page: Page, api: Api): Promise<void> {
  const me = await api.ask<Record<string, unknown>>("GET", "/v1/me");
  const quotas = [
    { name: "workflows", used: 10_000, max: 10_000, setting: null },
    { name: "keys", used: 899, max: 1_000, setting: null },
    { name: "streams", used: 900, max: 1_000, setting: "EVERSTEP_MAX_STREAMS" },
  ];
  await page.route("**/v1/me", (route) => route.fulfill({ json: { ...me, quotas } }));
}

/** Shows a screen as a link of the console does, without loading the page again. */
export async function showScreen(page: Page, { path, text }: Screen): Promise<void> {
  await page.evaluate((path) => window.history.pushState(null, "", path), path);
  await page.getByRole("main").getByText(text).filter({ visible: true }).first().waitFor();
}
