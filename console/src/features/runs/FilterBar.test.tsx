import { QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createQueryClient } from "../../api/queries";
import { FilterBar } from "./FilterBar";
import type { Term } from "./filterModel";

vi.mock("../../api/client", () => ({ call: vi.fn(async () => []) }));

let root: Root;
beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

/** The statuses whose buttons have this value of `aria-pressed`. */
function statuses(pressed: "true" | "false"): (string | null)[] {
  const buttons = document.querySelectorAll(`fieldset[aria-label=Status] button[aria-pressed=${pressed}]`);
  return [...buttons].map((button) => button.textContent);
}

async function show(terms: readonly Term[]): Promise<void> {
  await act(async () => {
    root.render(
      <QueryClientProvider client={createQueryClient()}>
        <FilterBar terms={terms} onChange={() => undefined} />
      </QueryClientProvider>,
    );
  });
}

test("the_buttons_of_the_selected_statuses_are_pressed", async () => {
  await show([{ name: "status", value: "failed,paused" }]);
  expect(statuses("true")).toEqual(["Paused", "Failed"]);
  expect(statuses("false")).toEqual(["Pending", "Running", "Waiting", "Completed", "Cancelled"]);
  await show([]);
  expect(statuses("true")).toEqual([]);
});
