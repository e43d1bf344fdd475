import { QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createQueryClient } from "../../api/queries";
import type { RunFollower } from "../../api/socket";
import { headsOf } from "./model/heads.fixture";
import { RunScreen } from "./RunScreen";

const IDS = ["start", "a", "b", "c", "end"];
const definition = {
  // Each node has a type of its own: its drawing asks for the icon of the type.
  nodes: IDS.map((id, index) => ({ id, type: `kind-${id}`, position: { x: 0, y: 100 * index } })),
  edges: IDS.slice(1).map((id, index) => ({ source: IDS[index], target: id })),
};
const heads = headsOf(`
  +0 run started
  +1 step start began task
  +2 step start completed
  +3 step a began task
  +4 step a completed
  +5 step b began task
  +6 step b completed
`);
const run = {
  ...{ id: "r", workflow: "w", workflowVersion: 1, version: 4, status: "running", createdAt: "2026-01-01T00:00:00Z" },
  ...{ endedAt: null, input: {}, output: null, error: null, open: [], waitingFor: null, machine: null, tags: null },
};
const answers: Record<string, unknown> = {
  "GET /v1/runs/{id}": run,
  "GET /v1/runs/{id}/journal": { entries: heads.slice(0, 4), nextAfter: null },
  "GET /v1/runs": { runs: [], nextCursor: null, scanned: 0 },
  "GET /v1/workflows/{name}": { name: "w", version: 1, style: "graph", definition },
  "GET /v1/me": { permissions: [], workspace: { id: "w" }, features: [] },
};

const seen = vi.hoisted(() => ({ draws: [] as string[], followers: [] as unknown[] }));
vi.mock("../../api/client", () => ({ call: vi.fn(async (name: string) => answers[name]) }));
vi.mock("../../api/socket", async (original) => ({
  ...(await original<typeof import("../../api/socket")>()),
  liveSocket: () => ({
    followRun: (_: string, follower: unknown) => {
      seen.followers.push(follower);
      return () => undefined;
    },
    followWorkspace: () => () => undefined,
  }),
}));
vi.mock("../../ui/Icon", async (original) => {
  const icons = await original<typeof import("../../ui/Icon")>();
  const kindIcon: typeof icons.kindIcon = (kind) => {
    seen.draws.push(kind ?? "");
    return icons.kindIcon(kind);
  };
  return { ...icons, kindIcon };
});

let root: Root;
beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

/** Waits until a condition of the page holds. */
async function until(check: () => boolean): Promise<void> {
  while (!check()) await act(async () => new Promise((resolve) => setTimeout(resolve, 5)));
}

test("one_live_entry_redraws_one_node", async () => {
  await act(async () => {
    root.render(
      <QueryClientProvider client={createQueryClient()}>
        <RunScreen id="r" />
      </QueryClientProvider>,
    );
  });
  const node = (id: string) => document.querySelector(`.canvas-node[title="${id}"]`);
  await until(() => node("a")?.classList.contains("is-running") ?? false);
  const follower = seen.followers.at(-1) as RunFollower;
  for (const [index, id, status] of [
    [4, "a", "completed"],
    [5, "b", "running"],
    [6, "b", "completed"],
  ] as const) {
    seen.draws.length = 0;
    await act(async () => follower.receive({ run: "r", event: "entry", seq: index + 1, data: heads[index] }));
    await until(() => node(id)?.classList.contains(`is-${status}`) ?? false);
    expect(seen.draws, `drawings after entry ${index + 1}`).toEqual([`kind-${id}`]);
  }
});
