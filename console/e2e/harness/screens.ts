// Every screen of the console, in a workspace with a run of each kind.

import type { Page } from "playwright-core";
import type { Api } from "./api";
import { approval, chain, hello, script, ticket } from "./workflows";

export interface Runs {
  done: string;
  failed: string;
  asking: string;
  machine: string;
}

/** A workspace with a run of each kind. */
export async function fill(api: Api): Promise<Runs> {
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
    ["run-machine", `/runs/${runs.machine}`, "Take it"],
    ["diff", `/runs/${runs.done}/diff/${runs.done}`, "The runs do not differ"],
    ["workflows", "/workflows", "ticket"],
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

/** Shows a screen as a link of the console does, without loading the page again. */
export async function showScreen(page: Page, { path, text }: Screen): Promise<void> {
  await page.evaluate((path) => window.history.pushState(null, "", path), path);
  await page.getByRole("main").getByText(text).filter({ visible: true }).first().waitFor();
}
