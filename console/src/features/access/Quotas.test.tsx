import { QueryClientProvider } from "@tanstack/react-query";
import { act, type ReactElement } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createQueryClient } from "../../api/queries";
import { KeysScreen } from "./KeysScreen";
import { Quotas } from "./Quotas";

const QUOTAS = [
  { name: "workflows", used: 812, max: 10_000, setting: null },
  { name: "keys", used: 1_000, max: 1_000, setting: null },
  { name: "streams", used: 912, max: 1_000, setting: "EVERSTEP_MAX_STREAMS" },
  // The name of a later release.
  { name: "lamps", used: 0, max: 5, setting: null },
];
const server = vi.hoisted(() => ({ workspace: "shop" }));
vi.mock("../../api/client", () => ({
  call: vi.fn(async (route: string) =>
    route === "GET /v1/me"
      ? { workspace: { id: "w", name: server.workspace }, permissions: ["workflow:admin"], quotas: QUOTAS }
      : { keys: [], nextCursor: null },
  ),
}));

let root: Root;
beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  root = createRoot(document.body.appendChild(document.createElement("div")));
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
  server.workspace = "shop";
});

async function show(screen: ReactElement) {
  await act(async () => {
    root.render(<QueryClientProvider client={createQueryClient()}>{screen}</QueryClientProvider>);
  });
}

test.each([
  ["shop", 4],
  ["default", 0],
])("the_page_of_the_keys_of_the_workspace_%s_shows_%i_quotas", async (workspace, quotas) => {
  server.workspace = workspace;
  await show(<KeysScreen />);
  await vi.waitFor(() => expect(document.body.textContent).toContain("Create API key"));
  await vi.waitFor(() => expect(document.querySelectorAll("[role=meter]").length).toBe(quotas));
});

test("each_quota_has_a_named_meter_and_a_text_that_warns", async () => {
  await show(<Quotas />);
  await vi.waitFor(() => expect(document.querySelector("h2")?.textContent).toBe("Quotas of shop"));
  const meters = [...document.querySelectorAll("[role=meter]")].map((meter) => {
    const value = (name: string) => meter.getAttribute(`aria-${name}`) ?? "";
    const label = document.getElementById(value("labelledby"))?.textContent;
    return [label, value("valuenow"), value("valuemax"), value("valuetext"), meter.nextElementSibling?.textContent];
  });
  expect(meters).toEqual([
    ["Workflows", "812", "10000", "812 of 10,000", "812 of 10,000"],
    ["API keys", "1000", "1000", "1,000 of 1,000", "1,000 of 1,000"],
    ["Streams at this node", "912", "1000", "912 of 1,000", "912 of 1,000"],
    ["lamps", "0", "5", "0 of 5", "0 of 5"],
  ]);
  const warnings = [...document.querySelectorAll("li")].map((line) => line.querySelector("p")?.textContent ?? null);
  expect(warnings).toEqual([
    null,
    "The quota is reached: the server rejects requests that would exceed it. Delete or revoke unused ones.",
    "91% in use: the server rejects requests that would exceed the quota. The setting EVERSTEP_MAX_STREAMS raises it.",
    null,
  ]);
});
