// The list of runs: filter, table, announcement of new runs, actions on many.

import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { keys, useRuns } from "../../api/queries";
import { t } from "../../lib/i18n";
import { paths, useSearchState } from "../../lib/url";
import { Button, Empty, Menu, Problem, Skeleton, Table } from "../../ui";
import { type BulkAction, BulkDialog, type BulkTarget } from "./BulkDialog";
import { COLUMN_IDS, columnsOf, columnTitle, readColumns, writeColumns } from "./columns";
import { FilterBar } from "./FilterBar";
import { FILTER_NAMES, isFilterName, type Term, termsFromParams, termsToQuery } from "./filterModel";
import { useNewRuns } from "./newRuns";
import "./runs.css";

const ACTIONS: readonly BulkAction[] = ["retry", "cancel", "pause", "resume"];
const START_COMMAND = `everstep start hello --input '{"name": "Ada"}'`;
const ICONS = { retry: "retry", cancel: "stop", pause: "pause", resume: "play" } as const;

export function RunsList() {
  const { params, set } = useSearchState();
  const [, navigate] = useLocation();
  const client = useQueryClient();
  const canManage = useCan("workflow:manage");
  const terms = useMemo(() => termsFromParams(params), [params]);
  const query = useMemo(() => termsToQuery(terms, Date.now()), [terms]);
  const runs = useRuns(query);
  const rows = useMemo(() => runs.data?.pages.flatMap((page) => page.runs) ?? [], [runs.data]);
  const fresh = useNewRuns(query, terms, rows);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<BulkTarget | null>(null);
  const [columnIds, setColumnIds] = useState(readColumns);
  const columns = useMemo(() => columnsOf(columnIds), [columnIds]);

  const changeTerms = (next: readonly Term[]) => {
    const cleared = [...params.keys()].filter((name) => isFilterName(name) || FILTER_NAMES.includes(name));
    const changes: Record<string, string | null> = Object.fromEntries(cleared.map((name) => [name, null]));
    for (const { name, value } of next) changes[name] = value;
    setSelected(new Set());
    set(changes, "push");
  };
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = runs;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  // A page may be empty although later ones are not: the server examines a limited number of runs for a page.
  const isSearching = rows.length === 0 && hasNextPage;
  useEffect(() => {
    if (isSearching) loadMore();
  }, [isSearching, loadMore]);
  const reload = () => {
    fresh.clear();
    void client.resetQueries({ queryKey: keys.runs(query) });
  };

  return (
    <div className="runs">
      <FilterBar terms={terms} onChange={changeTerms} />
      <div className="runs-bar">
        {selected.size > 0 ? (
          <>
            <b>{t("runs.selected", { n: selected.size })}</b>
            {ACTIONS.map((action) => (
              <Button
                key={action}
                size="small"
                icon={ICONS[action]}
                tone={action === "cancel" ? "danger" : "plain"}
                reason={canManage ? null : t("problem.forbidden", { permission: "workflow:manage" })}
                onPress={() => setBulk({ action, ids: [...selected] })}
              >
                {t(`action.${action}`)}
              </Button>
            ))}
            <Button size="small" tone="ghost" onPress={() => setSelected(new Set())}>
              {t("runs.clearSelection")}
            </Button>
          </>
        ) : (
          <span className="muted" role="status">
            {runs.data
              ? runs.hasNextPage
                ? t("runs.loadedMore", { n: rows.length })
                : t("runs.count", { n: rows.length })
              : ""}
          </span>
        )}
        {(fresh.count === null || fresh.count > 0) && (
          <Button size="small" tone="primary" icon="chevronUp" onPress={reload}>
            {fresh.count === null ? t("runs.newMany") : t("runs.new", { n: fresh.count })}
          </Button>
        )}
        <span className="grow" />
        <Menu
          label={t("runs.allMatching")}
          trigger={
            <Button size="small" tone="ghost" icon="more">
              {t("runs.allMatching")}
            </Button>
          }
          entries={ACTIONS.map((action) => ({
            id: action,
            label: t(`bulk.${action}`),
            icon: ICONS[action],
            tone: action === "cancel" ? "danger" : "plain",
            reason: canManage ? null : t("problem.forbidden", { permission: "workflow:manage" }),
            onAction: () => setBulk({ action, ids: null }),
          }))}
        />
        <Menu
          label={t("runs.columns")}
          trigger={<Button size="small" tone="ghost" icon="columns" label={t("runs.columns")} />}
          entries={COLUMN_IDS.map((id) => ({
            id,
            label: columnTitle(id),
            isSelected: columnIds.includes(id),
            onAction: () => {
              const next = columnIds.includes(id) ? columnIds.filter((one) => one !== id) : [...columnIds, id];
              writeColumns(next);
              setColumnIds(next);
            },
          }))}
        />
        <Button size="small" tone="ghost" icon="retry" label={t("ui.reload")} onPress={reload} />
      </div>
      {runs.isPending || (isSearching && !runs.isError) ? (
        <Skeleton rows={16} />
      ) : runs.isLoadingError ? (
        <Problem problem={toProblem(runs.error)} onRetry={() => void runs.refetch()} />
      ) : rows.length === 0 ? (
        <NoRuns isFiltered={terms.length > 0} onClear={() => changeTerms([])} />
      ) : (
        <Table
          label={t("runs.title")}
          columns={columns}
          rows={rows}
          rowId={(run) => run.id}
          rowLabel={(run) => `${run.workflow} ${run.id}`}
          onOpen={(run, isNewTab) => (isNewTab ? window.open(paths.run(run.id)) : navigate(paths.run(run.id)))}
          selection={{ selected, onChange: setSelected }}
          onEnd={loadMore}
          footer={runs.isFetchingNextPage ? <Skeleton rows={2} /> : undefined}
        />
      )}
      {bulk && (
        <BulkDialog
          target={bulk}
          terms={terms}
          onClose={() => {
            setBulk(null);
            setSelected(new Set());
          }}
        />
      )}
    </div>
  );
}

function NoRuns({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <Empty
        icon="filter"
        title={t("runs.noMatch")}
        action={<Button onPress={onClear}>{t("runs.clearFilters")}</Button>}
      >
        {t("runs.noMatchText")}
      </Empty>
    );
  }
  return (
    <Empty icon="runs" title={t("runs.none")} command={START_COMMAND}>
      {t("runs.noneText")}
    </Empty>
  );
}
