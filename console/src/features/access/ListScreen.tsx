// The frame of a list of the access pages.

import type { ReactNode } from "react";
import { toProblem } from "../../api/problem";
import { type Column, Empty, type IconName, Page, Problem, Skeleton, Table } from "../../ui";
import "./access.css";

interface ListScreenProps<Row> {
  title: string;
  icon: IconName;
  none: { title: string; text?: string; command?: string };
  list: { rows: readonly Row[]; onEnd: () => void; error: unknown; isPending: boolean; refetch: () => unknown };
  columns: ReadonlyArray<Column<Row>>;
  rowId: (row: Row) => string;
  /** The name of a row for screen readers, unless it is its id. */
  rowLabel?: (row: Row) => string;
  actions?: ReactNode;
  /** Above the list, also if the list cannot be read. */
  filter?: ReactNode;
  onOpen?: (row: Row) => void;
  children?: ReactNode;
}

export function ListScreen<Row>({
  title,
  icon,
  none,
  list,
  columns,
  rowId,
  rowLabel = rowId,
  actions,
  filter,
  onOpen,
  children,
}: ListScreenProps<Row>) {
  return (
    <Page title={title} actions={list.error ? undefined : actions}>
      {filter}
      {list.error ? (
        <Problem problem={toProblem(list.error)} onRetry={() => void list.refetch()} />
      ) : list.isPending ? (
        <Skeleton />
      ) : list.rows.length === 0 ? (
        <Empty icon={icon} title={none.title} command={none.command}>
          {none.text}
        </Empty>
      ) : (
        <Table
          label={title}
          columns={columns}
          rows={list.rows}
          rowId={rowId}
          rowLabel={rowLabel}
          onEnd={list.onEnd}
          onOpen={onOpen}
        />
      )}
      {children}
    </Page>
  );
}
