// The list of runs: filter, table, announcement of new runs, actions on many.

import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { keys, RUNS_PAGE, useRuns } from "../../api/queries";
import { commands } from "../../lib/commands";
import { t } from "../../lib/i18n";
import type { ControlName } from "../../lib/status";
import { paths, useSearchState } from "../../lib/url";
import { Button, Empty, Menu, Problem, Skeleton, Table } from "../../ui";
import { BulkDialog, type BulkTarget } from "./BulkDialog";
import { COLUMN_IDS, columnsFromView, readColumns, viewOfColumns, writeColumns } from "./columnModel";
import { columnsOf, columnTitle } from "./columns";
import { FilterBar } from "./FilterBar";
import { FILTER_NAMES, isFilterName, type Term, termsFromParams, termsToQuery } from "./filterModel";
import { useNewRuns } from "./newRuns";
import "./runs.css";

const ACTIONS: readonly ControlName[] = ["retry", "cancel", "pause", "resume"];
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
  // The columns of the address, which a colleague may have sent; else those that were last chosen in this browser.
  const view = params.get("view");
  const columnIds = useMemo(() => columnsFromView(view) ?? readColumns(), [view]);
  const columns = useMemo(() => columnsOf(columnIds), [columnIds]);

  const changeTerms = (next: readonly Term[]) => {
    const cleared = [...params.keys()].filter((name) => isFilterName(name) || FILTER_NAMES.includes(name));
    const changes: Record<string, string | null> = Object.fromEntries(cleared.map((name) => [name, null]));
    for (const { name, value } of next) changes[name] = value;
    setSelected(new Set());
    set(changes, "push");
  };
  const chosen = useMemo(() => rows.filter((run) => selected.has(run.id)), [rows, selected]);
  // Newest first, as the list.
  const [newer, older] = chosen;
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = runs;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);
  // The server examines a limited number of runs for a page. The search continues until the first page is full.
  const isSearching = hasNextPage && rows.length < RUNS_PAGE;
  const scanned = useMemo(() => runs.data?.pages.reduce((sum, page) => sum + page.scanned, 0) ?? 0, [runs.data]);
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
                onPress={() => setBulk({ action, runs: chosen })}
              >
                {t(`action.${action}`)}
              </Button>
            ))}
            <Button
              size="small"
              icon="compare"
              reason={chosen.length === 2 ? null : t("runs.compareTwo")}
              onPress={() => older && newer && navigate(paths.diff(older.id, newer.id))}
            >
              {t("runs.compare")}
            </Button>
            <Button size="small" tone="ghost" onPress={() => setSelected(new Set())}>
              {t("runs.clearSelection")}
            </Button>
          </>
        ) : (
          <span className="muted" role="status">
            {runs.data
              ? isSearching
                ? t("runs.searching", { n: rows.length, scanned })
                : runs.hasNextPage
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
            onAction: () => setBulk({ action, runs: null }),
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
              const next = COLUMN_IDS.filter((one) => columnIds.includes(one) !== (one === id));
              writeColumns(next);
              set({ view: viewOfColumns(next) });
            },
          }))}
        />
        <Button size="small" tone="ghost" icon="retry" label={t("ui.reload")} onPress={reload} />
      </div>
      {runs.isPending || (isSearching && rows.length === 0 && !runs.isError) ? (
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
    <Empty icon="runs" title={t("runs.none")} command={commands.firstRun}>
      {t("runs.noneText")}
    </Empty>
  );
}
