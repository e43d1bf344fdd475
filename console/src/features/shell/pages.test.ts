import { expect, test } from "vitest";
import type { Me, Permission } from "../../api/types";
import { pagesFor } from "./pages";

/** The pages of the group "access" that a caller with these permissions may see. */
function accessPages(permissions: readonly Permission[], workspace = "team"): string[] {
  const me = { permissions, workspace: { id: "w", name: workspace } } as Me;
  return pagesFor(me)
    .filter((page) => page.group === "access")
    .map((page) => page.path.replace("/access/", ""));
}

test("each_role_sees_the_access_pages_that_it_may_read", () => {
  const viewer = ["workflow:read", "workflow:view"] as const;
  const publisher = [...viewer, "workflow:act", "workflow:manage", "workflow:publish"] as const;
  const admin = [...publisher, "workflow:admin", "worker:serve"] as const;
  expect(accessPages(viewer)).toEqual(["sources", "queries"]);
  expect(accessPages(publisher)).toEqual(["secrets", "sources", "queries"]);
  expect(accessPages(admin)).toEqual(["keys", "secrets", "sources", "queries", "audit"]);
  expect(accessPages(admin, "default")).toContain("workspaces");
  expect(accessPages(["worker:serve"])).toEqual([]);
});
