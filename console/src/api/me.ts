// The caller, its permissions, and what its server can do.

import { useQuery } from "@tanstack/react-query";
import { call } from "./client";
import type { Me } from "./types";

export type PermissionName =
  | "workflow:read"
  | "workflow:view"
  | "workflow:act"
  | "workflow:manage"
  | "workflow:publish"
  | "workflow:admin"
  | "worker:serve";

export const ME_KEY = ["me"] as const;

export function useMe() {
  return useQuery({
    queryKey: ME_KEY,
    queryFn: ({ signal }) => call("GET /v1/me", { signal }),
    staleTime: 60_000,
  });
}

/** Whether the caller has a permission. False while that is not known. */
export function useCan(permission: PermissionName): boolean {
  const me = useMe().data;
  return me !== undefined && may(me.permissions, permission);
}

/** An admin may do everything except serve; `manage` implies `act`. */
export function may(permissions: readonly string[], wanted: PermissionName): boolean {
  if (permissions.includes(wanted)) return true;
  if (wanted === "workflow:act" && permissions.includes("workflow:manage")) return true;
  return wanted !== "worker:serve" && permissions.includes("workflow:admin");
}

/** Whether the caller may see the nodes and workspaces of the server: an admin of its first workspace. */
export function isServerAdmin(me: Me): boolean {
  return me.workspace.name === "default" && may(me.permissions, "workflow:admin");
}

export function callerName(me: Me): string {
  return me.person?.name ?? me.person?.email ?? me.person?.id ?? me.key?.name ?? "";
}
