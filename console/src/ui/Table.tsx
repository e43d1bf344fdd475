// A table that draws only the rows on screen.
//
// Keys: ↑ ↓ PageUp PageDown Home End move, Enter opens a row, Space selects it. The grid has the focus and names its active
// row: a row that is scrolled out of the document cannot take the focus with it.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { t } from "../lib/i18n";
import { Checkbox } from "./Checkbox";
import { rowAfterKey } from "./rowKeys";

export interface Column<Row> {
  id: string;
  title: string;
  /** A track of a CSS grid: `minmax(120px, 2fr)`, `88px`. */
  width: string;
  align?: "start" | "end";
  cell: (row: Row) => ReactNode;
}

export interface Selection {
  selected: ReadonlySet<string>;
  onChange: (selected: ReadonlySet<string>) => void;
}

interface TableProps<Row> {
  label: string;
  columns: ReadonlyArray<Column<Row>>;
  rows: readonly Row[];
  rowId: (row: Row) => string;
  rowLabel: (row: Row) => string;
  onOpen?: (row: Row, isNewTab: boolean) => void;
  selection?: Selection;
  /** Called when the end of the rows comes near. */
  onEnd?: () => void;
  /** A last line: loading, or the end. */
  footer?: ReactNode;
  /** As high as its rows, inside a page that scrolls. */
  isNatural?: boolean;
}

const ROW_HEIGHT = 36;
const HEAD_HEIGHT = 32;
const OVERSCAN = 8;
const NEAR_END = 20;

export function Table<Row>(props: TableProps<Row>) {
  const { columns, rows, rowId, onOpen, selection, onEnd } = props;
  const scroll = useRef<HTMLDivElement>(null);
  const [chosen, setActive] = useState(0);
  const active = Math.min(chosen, rows.length - 1);
  const id = useId();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_HEIGHT,
    scrollMargin: HEAD_HEIGHT,
    scrollPaddingStart: HEAD_HEIGHT,
    overscan: OVERSCAN,
    getItemKey: (index) => (rows[index] === undefined ? index : rowId(rows[index])),
    initialRect: { width: 1000, height: 800 },
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && lastShown >= rows.length - NEAR_END) onEnd?.();
  }, [lastShown, rows.length, onEnd]);

  const template = [selection ? "16px" : null, ...columns.map((column) => column.width)].filter(Boolean).join(" ");
  const moveTo = (index: number) => {
    setActive(index);
    virtual.scrollToIndex(index);
  };
  const toggle = (row: Row) => {
    if (!selection) return;
    const next = new Set(selection.selected);
    if (!next.delete(rowId(row))) next.add(rowId(row));
    selection.onChange(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[active];
    if (event.target !== event.currentTarget) return;
    const next = rowAfterKey(event.key, active, rows.length, 15);
    if (next !== null) moveTo(next);
    else if (event.key === "Enter" && row !== undefined) onOpen?.(row, event.ctrlKey || event.metaKey);
    else if (event.key === " " && row !== undefined && selection) toggle(row);
    else return;
    event.preventDefault();
  };
  const areAllSelected =
    selection !== undefined && rows.length > 0 && rows.every((row) => selection.selected.has(rowId(row)));
  const start = items[0]?.start ?? HEAD_HEIGHT;
  const isActiveDrawn = items.some((item) => item.index === active);

  return (
    <div className="ui-table">
      <div
        ref={scroll}
        className={props.isNatural ? "ui-table-scroll natural" : "ui-table-scroll"}
        role="grid"
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        aria-multiselectable={selection ? true : undefined}
        aria-activedescendant={isActiveDrawn ? `${id}${active}` : undefined}
        tabIndex={0}
        onKeyDown={onKeyDown}
      >
        <div className="ui-table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {selection && (
            <div role="columnheader" className="ui-cell">
              <Checkbox
                label={t("ui.selectLoaded")}
                isSelected={areAllSelected}
                isIndeterminate={!areAllSelected && selection.selected.size > 0}
                onChange={(isOn) => selection.onChange(new Set(isOn ? rows.map(rowId) : []))}
              />
            </div>
          )}
          {columns.map((column) => (
            <div
              key={column.id}
              // A header without a text is not a header.
              role={column.title === "" ? "gridcell" : "columnheader"}
              className={column.align === "end" ? "ui-cell end" : "ui-cell"}
            >
              {column.title}
            </div>
          ))}
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative", minWidth: "min-content" }}>
          <div
            role="presentation"
            style={{ position: "absolute", inset: "0 0 auto", transform: `translateY(${start - HEAD_HEIGHT}px)` }}
          >
            {items.map((item) => {
              const row = rows[item.index];
              if (row === undefined) return null;
              return (
                <TableRow
                  key={item.key}
                  id={`${id}${item.index}`}
                  row={row}
                  index={item.index}
                  isActive={item.index === active}
                  onActive={() => setActive(item.index)}
                  template={template}
                  table={props}
                  toggle={toggle}
                />
              );
            })}
          </div>
        </div>
        {props.footer}
      </div>
    </div>
  );
}

interface TableRowProps<Row> {
  id: string;
  row: Row;
  index: number;
  isActive: boolean;
  onActive: () => void;
  template: string;
  table: TableProps<Row>;
  toggle: (row: Row) => void;
}

function TableRow<Row>({ id, row, index, isActive, onActive, template, table, toggle }: TableRowProps<Row>) {
  const isSelected = table.selection?.selected.has(table.rowId(row)) ?? false;
  const open = (event: MouseEvent) => {
    onActive();
    // A click on a control inside the row, or one that ends a selection of text, is not for the row.
    if ((event.target as HTMLElement).closest("a, button, label")) return;
    if (window.getSelection()?.toString()) return;
    table.onOpen?.(row, event.ctrlKey || event.metaKey || event.button === 1);
  };
  return (
    <div
      id={id}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={table.selection ? isSelected : undefined}
      aria-label={table.rowLabel(row)}
      className={["ui-table-row", table.onOpen && "is-link", isActive && "is-active"].filter(Boolean).join(" ")}
      style={{ gridTemplateColumns: template }}
      onClick={open}
      onKeyDown={() => undefined}
    >
      {table.selection && (
        <div role="gridcell" className="ui-cell">
          <Checkbox label={t("ui.select")} isInRow isSelected={isSelected} onChange={() => toggle(row)} />
        </div>
      )}
      {table.columns.map((column) => (
        <div key={column.id} role="gridcell" className={column.align === "end" ? "ui-cell end" : "ui-cell"}>
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}
