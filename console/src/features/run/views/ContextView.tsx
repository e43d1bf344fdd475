// The variables of a run at an entry, and what that entry changed.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import { t } from "../../../lib/i18n";
import { compare, type Difference, pathExpression, summarize } from "../../../lib/json";
import { JsonTree, Problem, Select, Skeleton } from "../../../ui";
import { useRequestedSeq, useRunStore } from "../runContext";

export function useContextAt(id: string, seq: number, isEnabled = true) {
  return useQuery({
    queryKey: ["context", id, seq],
    queryFn: ({ signal }) => call("GET /v1/runs/{id}/context", { path: { id }, query: { at: seq }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    placeholderData: keepPreviousData,
    enabled: isEnabled && seq > 0,
  });
}

export function ContextView() {
  const { id } = useRunStore();
  const seq = useRequestedSeq(["context", id]);
  const now = useContextAt(id, seq);
  const isShown = now.data !== undefined && !now.isPlaceholderData;
  // One request per entry while the slider moves. Where it rests, the entry before is requested too, unless it was shown.
  const before = useContextAt(id, seq - 1, isShown);
  const [scope, setScope] = useState("");
  const changes = useMemo(() => {
    if (!now.data || !before.data || before.isPlaceholderData || now.data.seq === before.data.seq) return [];
    return compare(before.data.context, now.data.context, 50);
  }, [now.data, before.data, before.isPlaceholderData]);
  if (now.isLoadingError) return <Problem problem={toProblem(now.error)} onRetry={() => void now.refetch()} />;
  if (!now.data) return <Skeleton />;
  const { context, scopes } = now.data;
  const inside = scopes.find((one) => one.scope === scope);
  return (
    <div className="run-view run-columns">
      <div className="run-column">
        {scopes.length > 0 && (
          <Select
            label={t("context.scope")}
            options={[
              { id: "", label: t("context.whole") },
              ...scopes.map((one) => ({ id: one.scope, label: one.scope })),
            ]}
            value={scope}
            onChange={setScope}
          />
        )}
        <JsonTree
          label={t("run.context")}
          value={inside?.context ?? context}
          root="ctx"
          isFill
          fileName={`context-${seq}.json`}
        />
      </div>
      <aside className="run-changes" aria-label={t("context.changes")}>
        <h2>{t("context.changedAt", { seq: String(seq) })}</h2>
        {changes.length === 0 ? <p className="faint">{t("context.noChange")}</p> : <Changes changes={changes} />}
      </aside>
    </div>
  );
}

export function Changes({ changes }: { changes: readonly Difference[] }) {
  return (
    <ul className="changes">
      {changes.map((change) => (
        <li key={pathExpression("", change.path)} className={change.kind}>
          <code className="path">{pathExpression("ctx", change.path)}</code>
          {change.kind !== "added" && <code className="before">{summarize(change.before, 160)}</code>}
          {change.kind !== "removed" && <code className="after">{summarize(change.after, 160)}</code>}
        </li>
      ))}
    </ul>
  );
}
