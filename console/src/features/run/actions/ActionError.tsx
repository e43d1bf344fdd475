// Why an action did not succeed: also that its outcome is not known, or that the run has changed.

import { toProblem } from "../../../api/problem";
import { t } from "../../../lib/i18n";
import { Note, Problem } from "../../../ui";
import { changesSince } from "../model/changes";
import { useRunPart, useRunStore } from "../runContext";

/** `version`: the version of the run for which the action was meant. */
export function ActionError({ error, version }: { error: unknown; version: number | null }) {
  const problem = toProblem(error);
  if (problem.isUnknown) return <Note>{t("action.unknown", { detail: problem.message })}</Note>;
  if (problem.code === "CONCURRENCY_ERROR") return <Changed version={version} detail={problem.message} />;
  return <Problem problem={problem} isInline />;
}

/** The entries that the run has had since. */
function Changed({ version, detail }: { version: number | null; detail: string }) {
  const { model } = useRunStore();
  // Drawn again when an entry arrives.
  useRunPart((view) => view.last);
  const changes = version === null ? "" : changesSince(model.all(), version);
  return <Note isAlert>{t("action.changed", { detail: changes === "" ? detail : changes })}</Note>;
}
