// Which actions a run and a caller allow now, and why others are not possible.

import { may, type PermissionName } from "../../../api/me";
import { t } from "../../../lib/i18n";
import { canControl, hasEnded, type RunStatus } from "../../../lib/status";

export type ActionName = "retry" | "pause" | "resume" | "cancel" | "signal" | "startAgain" | "fork" | "export";

const NEEDS: Record<ActionName, PermissionName> = {
  retry: "workflow:manage",
  pause: "workflow:manage",
  resume: "workflow:manage",
  cancel: "workflow:manage",
  signal: "workflow:manage",
  startAgain: "workflow:manage",
  fork: "workflow:manage",
  export: "workflow:view",
};

/** Why an action is not possible; null if it is. */
export function blockedBy(action: ActionName, status: RunStatus, permissions: readonly string[]): string | null {
  const permission = NEEDS[action];
  if (!may(permissions, permission)) return t("problem.forbidden", { permission });
  const is = t(`status.${status}`);
  switch (action) {
    case "retry":
      return canControl(action, status) ? null : t("action.onlyFailed", { status: is });
    case "resume":
      return canControl(action, status) ? null : t("action.onlyPaused", { status: is });
    case "pause":
    case "cancel":
      return canControl(action, status) ? null : t("action.notNow", { status: is });
    case "signal":
      return hasEnded(status) ? t("action.notNow", { status: is }) : null;
    case "startAgain":
    case "fork":
    case "export":
      return null;
  }
}
