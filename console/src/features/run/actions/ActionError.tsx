// Why an action did not succeed: also that its outcome is not known, or that the run has changed.

import { toProblem } from "../../../api/problem";
import { t } from "../../../lib/i18n";
import { Problem } from "../../../ui";

export function ActionError({ error }: { error: unknown }) {
  const problem = toProblem(error);
  if (problem.isUnknown) return <p className="action-note">{t("action.unknown", { detail: problem.message })}</p>;
  if (problem.code === "CONCURRENCY_ERROR")
    return <p className="action-note">{t("action.changed", { detail: problem.message })}</p>;
  return <Problem problem={problem} isInline />;
}
