// `/runs`

import { RunsList } from "../features/runs/RunsList";
import { t } from "../lib/i18n";
import { Page } from "../ui";

export function RunsPage() {
  return (
    <Page title={t("nav.runs")}>
      <RunsList />
    </Page>
  );
}
