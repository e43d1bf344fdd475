// The actions on a run: those that are possible now as buttons, the others in a menu with the reason.

import { useMemo, useState } from "react";
import { call } from "../../../api/client";
import { useMe } from "../../../api/me";
import { toProblem } from "../../../api/problem";
import type { Run } from "../../../api/types";
import { downloadText } from "../../../lib/download";
import { t } from "../../../lib/i18n";
import { pretty } from "../../../lib/json";
import { usePageActions } from "../../../lib/pageActions";
import { Button, type IconName, Menu, showToast } from "../../../ui";
import { type ActionName, blockedBy } from "./allowed";
import { ControlDialog, ForkDialog, SignalDialog, StartAgainDialog, waitsOf } from "./dialogs";

const ICONS: Record<ActionName, IconName> = {
  retry: "retry",
  pause: "pause",
  resume: "play",
  cancel: "stop",
  signal: "send",
  startAgain: "play",
  fork: "fork",
  export: "download",
};
const ALL: readonly ActionName[] = ["retry", "resume", "pause", "signal", "startAgain", "fork", "export", "cancel"];
const NO_PERMISSIONS: readonly string[] = [];

export function RunActions({ run, at }: { run: Run; at: number | null }) {
  const permissions = useMe().data?.permissions ?? NO_PERMISSIONS;
  const [open, setOpen] = useState<Exclude<ActionName, "export"> | null>(null);
  const act = useMemo(() => {
    return (action: ActionName) => (action === "export" ? void exportRun(run) : setOpen(action));
  }, [run]);
  const blocked = (action: ActionName) => blockedBy(action, run.status, permissions);
  const offered = useMemo(
    () =>
      ALL.filter((action) => blockedBy(action, run.status, permissions) === null).map((action) => ({
        id: action,
        label: t(`action.${action}`),
        run: () => act(action),
      })),
    [run.status, permissions, act],
  );
  usePageActions(offered);
  const main = mainActions(run).filter((action) => blocked(action) === null);
  const close = () => setOpen(null);
  return (
    <>
      {main.map((action, index) => (
        <Button
          key={action}
          icon={ICONS[action]}
          tone={action === "cancel" ? "danger" : index === 0 && action !== "pause" ? "primary" : "plain"}
          onPress={() => act(action)}
        >
          {t(`action.${action}`)}
        </Button>
      ))}
      <Menu
        label={t("action.more")}
        trigger={<Button icon="more" label={t("action.more")} />}
        entries={ALL.map((action) => ({
          id: action,
          label: action === "fork" && at !== null ? t("action.forkHere", { seq: String(at) }) : t(`action.${action}`),
          icon: ICONS[action],
          tone: action === "cancel" ? "danger" : "plain",
          reason: blocked(action),
          startsGroup: action === "startAgain" || action === "cancel",
          onAction: () => act(action),
        }))}
      />
      {(open === "retry" || open === "pause" || open === "resume" || open === "cancel") && (
        <ControlDialog run={run} action={open} onClose={close} />
      )}
      {open === "signal" && <SignalDialog run={run} onClose={close} />}
      {open === "startAgain" && <StartAgainDialog run={run} onClose={close} />}
      {open === "fork" && <ForkDialog run={run} at={at} onClose={close} />}
    </>
  );
}

/** The actions that most people look for in this status. */
function mainActions(run: Run): readonly ActionName[] {
  switch (run.status) {
    case "failed":
      return ["retry", "fork"];
    case "paused":
      return ["resume", "cancel"];
    case "waiting":
      // An approval has buttons of its own.
      return waitsOf(run).some((wait) => !wait.approval) ? ["signal", "pause", "cancel"] : ["pause", "cancel"];
    case "pending":
    case "running":
      return ["pause", "cancel"];
    case "completed":
    case "cancelled":
      return ["startAgain"];
  }
}

/** Saves the run, its steps and its journal as one file. */
async function exportRun(run: Run): Promise<void> {
  try {
    const entries: unknown[] = [];
    let after: number | null = 0;
    while (after !== null) {
      const page: { entries: unknown[]; nextAfter: number | null } = await call("GET /v1/runs/{id}/journal", {
        path: { id: run.id },
        query: { after, limit: 1_000 },
      });
      entries.push(...page.entries);
      after = page.nextAfter;
    }
    downloadText(`run-${run.id}.json`, pretty({ run, journal: entries }));
  } catch (error) {
    showToast(toProblem(error).message, "bad");
  }
}
