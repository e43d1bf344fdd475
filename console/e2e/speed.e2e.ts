// Budgets of the page, in ms on a quiet machine and as ratios to a loop in the same browser.
//
// `npm run speed` measures them with a release build: `EVERSTEP_BINARY=../target/release/everstep npm run speed`. A budget
// in ms is checked where EVERSTEP_SPEED_CHECK=ms, a ratio always.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, expect, inject } from "vitest";
import { Api } from "./harness/api";
import { openSignedIn, type Scene, scenario } from "./harness/scenario";
import { Server } from "./harness/server";
import { calibrate, percentile } from "./harness/speed";
import { approval, chain, wait } from "./harness/workflows";

interface Figure {
  name: string;
  value: number;
  unit: "ms" | "fps" | "rows" | "MB" | "1/s";
  /** None for the conditions of a measurement. */
  budget?: number;
  /** In times of the calibration loop, for figures in ms. */
  ratio?: number;
}

const figures: Figure[] = [];
const isChecked = process.env.EVERSTEP_SPEED_CHECK === "ms";
/** What the calibration loop takes on the machine for which the budgets in ms are written. */
const CALIBRATION_MS = 16;

function record(name: string, value: number, budget: number, unit: Figure["unit"], calibration?: number): void {
  figures.push({ name, value, unit, budget, ...(calibration === undefined ? {} : { ratio: value / calibration }) });
}

/** Records a condition of the measurement, which has no budget. */
function note(name: string, value: number, unit: Figure["unit"]): void {
  figures.push({ name, value, unit });
}

/** Figures that were compared with their budgets. */
let checked = 0;

/** Fails if a figure since the last call is beyond its budget: as a ratio, or in ms if that is asked for. */
function check(): void {
  const fresh = figures.slice(checked);
  checked = figures.length;
  for (const { name, value, unit, budget, ratio } of fresh) {
    if (budget === undefined) continue;
    if (unit === "ms" && ratio !== undefined)
      expect(ratio, `${name}, as a ratio`).toBeLessThan(budget / CALIBRATION_MS);
    if (unit === "rows" || unit === "MB") expect(value, `${name} in ${unit}`).toBeLessThanOrEqual(budget);
    if (!isChecked) continue;
    if (unit === "fps") expect(value, name).toBeGreaterThanOrEqual(budget);
    else expect(value, `${name} in ${unit}`).toBeLessThanOrEqual(budget);
  }
}

afterAll(() => {
  for (const { name, value, unit, budget, ratio } of figures) {
    const most = budget === undefined ? "" : ` of ${budget}`;
    const loops = ratio === undefined ? "" : `  ${ratio.toFixed(2)} of ${(budget ?? 0) / CALIBRATION_MS} loops`;
    console.log(`${name.padEnd(56)} ${value.toFixed(1).padStart(8)} ${unit}${most}${loops}`);
  }
});

/** A graph of 500 nodes whose run has 10,000 entries: a loop has ten nodes, which are performed 450 times. */
function largeGraph() {
  const ids = Array.from({ length: 488 }, (_, n) => `n${n}`);
  const body = Array.from({ length: 10 }, (_, n) => `b${n}`);
  const transform = (id: string) => ({ id, type: "transform", config: { value: 1 } });
  const items = Array.from({ length: 450 }, (_, n) => n);
  const each = { id: "each", type: "loop", config: { sourceVariable: items, maxIterations: 450, concurrency: 10 } };
  const line = ["start", ...ids, "each"];
  const inside = [...body.slice(1).map((id, index) => [body[index], id]), [body.at(-1), "each"]];
  return {
    nodes: [
      { id: "start", type: "start" },
      ...ids.map(transform),
      each,
      ...body.map(transform),
      { id: "end", type: "end" },
    ],
    edges: [
      ...line.slice(1).map((id, index) => ({ source: line[index], target: id })),
      { source: "each", target: body[0], sourceHandle: "loop" },
      ...inside.map(([source, target]) => ({ source, target })),
      { source: "each", target: "end", sourceHandle: "done" },
    ],
  };
}

/** The steps that the loop of a busy graph performs in a second; each has two entries. */
const STEPS_PER_SECOND = 50;

/** The same graph, with a loop that waits: its run goes on for this time, with about 100 entries a second. */
function busyGraph(seconds: number) {
  const graph = largeGraph();
  const count = STEPS_PER_SECOND * seconds;
  const items = Array.from({ length: count }, (_, n) => n);
  const config = { sourceVariable: items, maxIterations: count, concurrency: STEPS_PER_SECOND };
  const nodes = graph.nodes
    .filter((node) => !/^b[1-9]$/.test(node.id))
    .map((node) => {
      if (node.id === "b0") return { id: "b0", type: "delay", config: { delaySeconds: 1 } };
      return node.id === "each" ? { id: "each", type: "loop", config } : node;
    });
  const edges = graph.edges.filter((edge) => !/^b[1-9]$/.test(`${edge.source}`) && !/^b[1-9]$/.test(`${edge.target}`));
  return { nodes, edges: [...edges, { source: "b0", target: "each" }] };
}

/** Starts a busy run and shows it. Returns its id, and how to read the rate of its entries since then. */
async function showBusyRun({ api, page, open }: Scene, seconds: number) {
  await api.save("busy", busyGraph(seconds));
  const run = await api.start("busy");
  await open(`/runs/${run}`);
  // A large graph is shown from its beginning; the node of the loop is at its end.
  await page.getByRole("button", { name: "Fit to the screen" }).click();
  await page.locator('.canvas-node[title="b0"]').waitFor();
  const [since, { version }] = [performance.now(), await api.run(run)];
  const rate = async () => ((await api.run(run)).version - version) / ((performance.now() - since) / 1_000);
  return { run, rate };
}

/** The time in which the page has applied the journal to its model. */
const foldTime = () =>
  performance.getEntriesByName("everstep:fold").reduce((sum, measure) => sum + measure.duration, 0);

/** The time since the navigation, in the clock of the page. */
const sinceNavigation = (page: Page) => page.evaluate(() => performance.now());

scenario(
  "the_list_of_ten_thousand_runs_is_usable_soon",
  async ({ api, page, open }) => {
    await api.save("gate", chain(wait("gate", "go")));
    await api.startMany("gate", 10_000, (n) => ({ n }));
    await open("/runs");
    const calibration = await calibrate(page);
    note("calibration loop", calibration, "ms");
    const rows = page.getByRole("rowgroup").getByRole("row");
    const times: number[] = [];
    for (let n = 0; n < 5; n += 1) {
      await page.goto("/runs");
      await rows.first().waitFor();
      times.push(await sinceNavigation(page));
    }
    record("list of 10,000 runs usable after navigation", percentile(times, 0.5), 800, "ms", calibration);
    record("rows in the document", await rows.count(), 60, "rows");
    check();
  },
  { timeout: 300_000 },
);

scenario(
  "a_run_of_ten_thousand_entries_opens_and_travels_fast",
  async ({ api, page, open }) => {
    await api.save("large", largeGraph());
    const run = await api.start("large");
    const { version } = await api.reaches(run, "completed");
    expect(version, "entries of the journal").toBeGreaterThan(9_900);
    await open(`/runs/${run}`);
    const calibration = await calibrate(page);
    const times: number[] = [];
    const folds: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      await page.goto(`/runs/${run}`);
      await page.getByRole("button", { name: "n0 Completed" }).waitFor();
      times.push(await sinceNavigation(page));
      folds.push(await page.evaluate(foldTime));
    }
    record("run of 500 nodes and 10,000 entries interactive", percentile(times, 0.5), 1_000, "ms", calibration);
    record("of which folding", percentile(folds, 0.5), 50, "ms", calibration);

    // From the key to the layout of the next entry.
    const steps = await page.evaluate(async () => {
      const where = document.querySelector(".travel-where");
      if (where === null) throw new Error("the run has no slider");
      const taken: number[] = [];
      for (let n = 0; n < 100; n += 1) {
        await new Promise((done) => requestAnimationFrame(done));
        const drawn = new Promise((done) => {
          const observer = new MutationObserver(() => {
            observer.disconnect();
            document.body.getBoundingClientRect();
            done(undefined);
          });
          observer.observe(where, { subtree: true, childList: true, characterData: true });
        });
        const begin = performance.now();
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
        await drawn;
        taken.push(performance.now() - begin);
      }
      return taken;
    });
    record("step of the slider, p95", percentile(steps, 0.95), 16, "ms", calibration);
    check();
  },
  { timeout: 300_000 },
);

scenario(
  "a_busy_graph_is_panned_and_zoomed_smoothly",
  async (scene) => {
    const { api, page } = scene;
    const { run, rate } = await showBusyRun(scene, 120);
    const box = await page.locator(".react-flow__pane").boundingBox();
    if (box === null) throw new Error("the graph is not drawn");
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.evaluate(() => {
      const frames: number[] = [];
      Reflect.set(window, "frames60", frames);
      let last = performance.now();
      const tick = (now: number) => {
        frames.push(now - last);
        last = now;
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    });
    await page.mouse.move(x, y);
    await page.mouse.down();
    for (let n = 0; n < 120; n += 1) await page.mouse.move(x + 200 * Math.sin(n / 10), y + 100 * Math.cos(n / 10));
    await page.mouse.up();
    for (let n = 0; n < 120; n += 1) await page.mouse.wheel(0, n % 20 < 10 ? -40 : 40);
    const frames = await page.evaluate(() => (Reflect.get(window, "frames60") as number[]).slice(2));
    const average = 1_000 / (frames.reduce((sum, one) => sum + one, 0) / frames.length);
    record("pan and zoom of 500 nodes with live entries", average, 55, "fps");
    // Not as a ratio: the screen, not the machine, decides how long a frame takes at least.
    record("the same, p95 of a frame", percentile(frames, 0.95), 20, "ms");
    note("the same, live entries", await rate(), "1/s");
    check();
    await api.ask("POST", `/v1/runs/${run}/cancel`, {});
  },
  { timeout: 300_000 },
);

const APPROVALS = 40;
const approvals = () =>
  chain(...Array.from({ length: APPROVALS }, (_, n) => approval(`ask${n}`, `approve.${n}`, { n })));

/** Gives all approvals on one page; returns the times until each is shown on the pages that follow. */
async function approve(here: Page, shown: Page): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < APPROVALS; n += 1) {
    const node = `.canvas-node.is-completed[title="ask${n}"]`;
    await here.locator(".run-sentence").getByText(`approve.${n}`, { exact: false }).first().waitFor();
    const drawn = shown.evaluate(
      (node) =>
        new Promise<number>((done) => {
          const look = () => (document.querySelector(node) ? done(Date.now()) : requestAnimationFrame(look));
          look();
        }),
      node,
    );
    const begun = await here.evaluate(() => {
      const button = document.querySelector<HTMLElement>(".run-sentence button");
      const begun = Date.now();
      button?.click();
      return begun;
    });
    times.push((await drawn) - begun);
  }
  return times;
}

scenario(
  "an_approval_is_shown_at_once",
  async ({ api, page, open }) => {
    await api.save("order", approvals());
    const run = await api.start("order");
    await open(`/runs/${run}`);
    const calibration = await calibrate(page);
    record("an approval is shown, p95", percentile(await approve(page, page), 0.95), 100, "ms", calibration);
    check();
  },
  { timeout: 120_000 },
);

const database = inject("database");
if (database !== null) {
  scenario(
    "an_approval_is_shown_at_the_other_node_within_a_second",
    async ({ page, colleague }) => {
      const folder = mkdtempSync(join(tmpdir(), "everstep-console-"));
      const data = join(folder, "data");
      const nodes: Server[] = [];
      try {
        for (let n = 0; n < 2; n += 1) nodes.push(await Server.start(data, { EVERSTEP_DATABASE_URL: database }));
        const [one, other] = nodes.map((node) => new Api(node.url, node.key));
        if (!one || !other) throw new Error("two nodes were started");
        await one.save("order", approvals());
        const run = await one.start("order");
        const theirs = await colleague();
        await openSignedIn(page, `${one.url}/runs/${run}`, one.key);
        await openSignedIn(theirs, `${other.url}/runs/${run}`, other.key);
        const calibration = await calibrate(page);
        const times = await approve(page, theirs);
        record("an approval is shown at the other node, p95", percentile(times, 0.95), 1_000, "ms", calibration);
        check();
      } finally {
        for (const node of nodes) await node.kill();
        rmSync(folder, { recursive: true, force: true });
      }
    },
    { timeout: 120_000 },
  );
}

const minutes = Number(process.env.EVERSTEP_SPEED_MINUTES ?? "0");
if (minutes > 0) {
  scenario(
    "a_followed_busy_run_does_not_fill_the_memory",
    async (scene) => {
      const { api, page } = scene;
      const { run, rate } = await showBusyRun(scene, (minutes + 2) * 60);
      const session = await page.context().newCDPSession(page);
      const heap = async () => {
        await session.send("HeapProfiler.collectGarbage");
        return (await session.send("Runtime.getHeapUsage")).usedSize / 1_000_000;
      };
      const before = await heap();
      await page.waitForTimeout(minutes * 60_000);
      record(`growth of the heap in ${minutes} minutes`, (await heap()) - before, 30, "MB");
      note("the same, live entries", await rate(), "1/s");
      expect((await api.run(run)).status, "the run is busy to the end").not.toBe("completed");
      check();
      await api.ask("POST", `/v1/runs/${run}/cancel`, {});
    },
    { timeout: (minutes + 3) * 60_000 },
  );
}
