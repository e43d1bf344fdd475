// The console without a mouse.

import type { Page } from "playwright-core";
import { expect, inject } from "vitest";
import { expectNone, openSignedIn, scenario } from "./harness/scenario";
import { ADMIN_SCREENS, fill, screens, showScreen } from "./harness/screens";
import { until } from "./harness/until";

/** More than a screen has stops. */
const TABS_MAX = 300;

interface Control {
  /** How the element is named in a message. */
  name: string;
  /** The number of the composite that the element is part of. Arrow keys lead from one of its elements to the next. */
  composite: number | null;
}

/** Numbers the elements of the page that a person can use. */
function listControls(page: Page): Promise<Control[]> {
  return page.evaluate(() => {
    const roles = "[role=grid],[role=tree],[role=tablist],[role=radiogroup],[role=toolbar],[role=listbox],[role=menu]";
    const composites = [...document.querySelectorAll(roles)];
    for (const element of document.querySelectorAll<HTMLElement>("[data-control]")) delete element.dataset.control;
    const controls = [...document.querySelectorAll<HTMLElement>("a[href],button,input,textarea,[tabindex]")].filter(
      (element) => {
        const isShown =
          element.checkVisibility({ visibilityProperty: true }) && element.closest("[inert],[hidden]") === null;
        const isEnabled = !element.matches(":disabled,[aria-hidden=true],[aria-hidden=true] *,[data-live-announcer] *");
        const isReachedByArrows = element.tabIndex < 0 && element.closest(roles) !== null;
        // A heading or a region that a script focuses is no control.
        const isControl = element.tabIndex >= 0 || element.matches("a[href],button,input,textarea,[role=button]");
        return isShown && isEnabled && isControl && !isReachedByArrows;
      },
    );
    return controls.map((element, index) => {
      element.dataset.control = String(index);
      const label = element.getAttribute("aria-label") ?? element.title ?? "";
      const text = `${element.className} ${label} ${element.innerText?.slice(0, 40) ?? ""}`;
      // In a grid and a tree, controls inside of a row are stops of their own.
      const around = element.closest("[role=radiogroup],[role=toolbar]");
      return {
        name: `${element.tagName.toLowerCase()} ${text}`.replace(/\s+/g, " ").trim(),
        composite: around === null ? null : composites.indexOf(around),
      };
    });
  });
}

/** The number of the focused control, and whether its focus can be seen; null if the focus is not on a control. */
function focusedControl(page: Page): Promise<{ index: number | null; isFocusShown: boolean }> {
  return page.evaluate(() => {
    const element = document.activeElement;
    if (!(element instanceof HTMLElement) || element === document.body) return { index: null, isFocusShown: true };
    const index = element.dataset.control === undefined ? null : Number(element.dataset.control);
    let isFocusShown = false;
    // A grid shows its focus at the active row. An input that is not drawn shows its focus at the element around it.
    const active = document.getElementById(element.getAttribute("aria-activedescendant") ?? "");
    for (
      let one: HTMLElement | null = active ?? element, level = 0;
      one !== null && level < 4;
      one = one.parentElement, level += 1
    ) {
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
      if ((outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none") isFocusShown = true;
    }
    return { index, isFocusShown };
  });
}

/** Visits all stops of a screen with the tab key. Returns the controls that it did not reach or show. */
async function walk(page: Page, screen: string): Promise<string[]> {
  const controls = await listControls(page);
  const stops = new Map<number, { isFocusShown: boolean }>();
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  // After the last stop the first one follows, until a stop is reached again.
  for (let n = 0; n < TABS_MAX; n += 1) {
    await page.keyboard.press("Tab");
    const { index, isFocusShown } = await focusedControl(page);
    if (index === null) continue;
    if (stops.has(index)) break;
    stops.set(index, { isFocusShown });
  }
  // Since the elements were numbered, the page may have replaced some, and panels that have got content are no stops.
  const present = await page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("[data-control]")]
      .filter((element) => element.tabIndex >= 0 || element.matches("a[href],button,input,textarea,[role=button]"))
      .map((element) => Number(element.dataset.control)),
  );
  const reached = new Set([...stops.keys()].map((index) => controls[index]?.composite ?? null));
  const missed = present.filter((index) => {
    const composite = controls[index]?.composite ?? null;
    return !stops.has(index) && (composite === null || !reached.has(composite));
  });
  const hidden = [...stops].filter(([, { isFocusShown }]) => !isFocusShown);
  return [
    ...missed.map((index) => `${screen}: ${controls[index]?.name} is not reached`),
    ...hidden.map(([index]) => `${screen}: the focus of ${controls[index]?.name} cannot be seen`),
  ];
}

/** Presses tab until an element with this name has the focus. */
async function tabTo(page: Page, role: "button" | "tab" | "textbox", name: string | RegExp): Promise<void> {
  const wanted = page.getByRole(role, { name, exact: true });
  await wanted.first().waitFor();
  for (let n = 0; n < TABS_MAX; n += 1) {
    if (await wanted.evaluateAll((all) => all.some((one) => one === document.activeElement))) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`the tab key does not lead to the ${role} ${name}`);
}

scenario(
  "every_screen_by_keyboard_alone",
  async ({ api, page, colleague }) => {
    const runs = await fill(api);
    await page.goto("/");
    await tabTo(page, "textbox", "API key or token");
    await page.keyboard.type(api.key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();

    // A workflow is found in the palette and started.
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.type("hello");
    await page.getByRole("option", { name: /hello/ }).first().waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/workflows\/hello/);
    await tabTo(page, "button", "Start");
    await page.keyboard.press("Enter");
    await tabTo(page, "textbox", "Input (JSON)");
    await page.keyboard.press("Control+a");
    await page.keyboard.type('{"name": "Bo"}');
    await tabTo(page, "button", "Start run");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\/[0-9a-f-]+/);

    // The run: a step of its graph, its views, its past.
    await page.getByRole("button", { name: "greet Completed" }).waitFor();
    await tabTo(page, "button", /^greet Completed/);
    await page.keyboard.press("Enter");
    await page.getByRole("complementary", { name: "Step greet" }).getByText("Hello, Bo!").waitFor();
    await tabTo(page, "tab", "Graph");
    await page.keyboard.press("ArrowRight");
    await page.waitForURL(/view=timeline/);
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await page.keyboard.press("Home");
    await page.waitForURL(/at=1/);
    await page.keyboard.press("Shift+ArrowRight");
    await page.waitForURL((url) => url.searchParams.get("at") !== "1");
    await page.keyboard.press("l");
    await page.waitForURL((url) => !url.searchParams.has("at"));

    // A row of the list, and a decision.
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.waitForURL(/\/runs$/);
    await page.getByRole("row", { name: /payment/ }).waitFor();
    await page.getByRole("rowgroup").getByRole("row").first().waitFor();
    for (let n = 0; n < TABS_MAX && (await activeRow(page)) === null; n += 1) await page.keyboard.press("Tab");
    expect(await activeRow(page)).toBe(2);
    await page.keyboard.press("ArrowDown");
    await until("the next row to be active", async () => (await activeRow(page)) === 3);
    await page.keyboard.press("Space");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/runs\/[0-9a-f-]+/);
    await page.keyboard.press("g");
    await page.keyboard.press("i");
    await page.waitForURL(/\/inbox/);
    await tabTo(page, "button", /^Approve/);
    await page.keyboard.press("Enter");
    await page.getByText("Nothing waits for you").waitFor();
    await api.reaches(runs.asking, "completed");

    const wrong: string[] = [];
    const asking = await api.start("order", { orderId: 8 });
    await until("the approval to be in the inbox", async () => {
      const { inbox } = await api.ask<{ inbox: { run: string }[] }>("GET", "/v1/inbox");
      return inbox.some((item) => item.run === asking);
    });
    await page.reload();
    await page.getByRole("main").getByText("order.approval").first().waitFor();
    for (const screen of screens({ ...runs, asking })) {
      await showScreen(page, screen);
      wrong.push(...(await walk(page, screen.name)));
    }
    const admin = await colleague();
    await openSignedIn(admin, "/", inject("key"));
    for (const screen of ADMIN_SCREENS) {
      await showScreen(admin, screen);
      wrong.push(...(await walk(admin, screen.name)));
    }
    expectNone("controls that the tab key does not reach, or whose focus cannot be seen", wrong);
  },
  { timeout: 180_000 },
);

/** The place of the row that a grid with the focus names as its active one; null if the focus is elsewhere. */
function activeRow(page: Page): Promise<number | null> {
  return page.evaluate(() => {
    const grid = document.activeElement;
    if (!grid?.matches("[role=grid]")) return null;
    const row = document.getElementById(grid.getAttribute("aria-activedescendant") ?? "");
    return row?.matches("[role=rowgroup] [role=row]") ? Number(row.getAttribute("aria-rowindex")) : null;
  });
}
