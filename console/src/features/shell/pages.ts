// The pages of the console, as the side bar, the palette and the keys know them.

import { isServerAdmin, may, type PermissionName } from "../../api/me";
import type { Me } from "../../api/types";
import type { MessageKey } from "../../lib/i18n";
import type { IconName } from "../../ui";

export interface PageEntry {
  path: string;
  title: MessageKey;
  icon: IconName;
  /** The keys that lead to it. */
  keys?: string;
  /** Without it the page can only say that it is missing. */
  permission: PermissionName;
  group: "main" | "system" | "access";
  /** Whether the page is about the server, not about the workspace. */
  isOfServer?: boolean;
}

export const PAGES: readonly PageEntry[] = [
  { path: "/", title: "nav.overview", icon: "overview", keys: "g o", permission: "workflow:view", group: "main" },
  { path: "/runs", title: "nav.runs", icon: "runs", keys: "g r", permission: "workflow:view", group: "main" },
  { path: "/inbox", title: "nav.inbox", icon: "inbox", keys: "g i", permission: "workflow:act", group: "main" },
  {
    path: "/workflows",
    title: "nav.workflows",
    icon: "workflow",
    keys: "g w",
    permission: "workflow:read",
    group: "main",
  },
  { path: "/workers", title: "nav.workers", icon: "worker", keys: "g k", permission: "workflow:view", group: "system" },
  {
    path: "/nodes",
    title: "nav.nodes",
    icon: "node",
    keys: "g n",
    permission: "workflow:admin",
    group: "system",
    isOfServer: true,
  },
  { path: "/access/keys", title: "nav.keys", icon: "key", keys: "g a", permission: "workflow:admin", group: "access" },
  { path: "/access/secrets", title: "nav.secrets", icon: "lock", permission: "workflow:publish", group: "access" },
  { path: "/access/sources", title: "nav.sources", icon: "database", permission: "workflow:read", group: "access" },
  { path: "/access/queries", title: "nav.queries", icon: "query", permission: "workflow:read", group: "access" },
  {
    path: "/access/workspaces",
    title: "nav.workspaces",
    icon: "workspace",
    permission: "workflow:admin",
    group: "access",
    isOfServer: true,
  },
  { path: "/access/audit", title: "nav.audit", icon: "audit", permission: "workflow:admin", group: "access" },
];

/** The pages that a caller may see. */
export function pagesFor(me: Me | undefined): readonly PageEntry[] {
  if (me === undefined) return [];
  return PAGES.filter((page) => (page.isOfServer ? isServerAdmin(me) : may(me.permissions, page.permission)));
}

export function isCurrent(page: string, location: string): boolean {
  return page === "/" ? location === "/" : location === page || location.startsWith(`${page}/`);
}
