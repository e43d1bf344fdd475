// The input and the output of a run.

import type { Run } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { JsonTree } from "../../../ui";

export function ValuesView({ run }: { run: Run }) {
  return (
    <div className="run-view run-columns values">
      <section className="run-column">
        <h2>{t("run.input")}</h2>
        <JsonTree label={t("run.input")} value={run.input} root="ctx.input" isFill fileName={`input-${run.id}.json`} />
      </section>
      <section className="run-column">
        <h2>{run.error ? t("run.error") : t("run.output")}</h2>
        <JsonTree label={t("run.output")} value={run.error ?? run.output} isFill fileName={`output-${run.id}.json`} />
      </section>
    </div>
  );
}
