// Rows that open and close, of which only those on screen are drawn.
//
// Keys: ↑ ↓ move, → opens or enters, ← closes or leaves, Home and End.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { rowAfterKey } from "./rowKeys";

export interface TreeRow {
  id: string;
  depth: number;
  isContainer: boolean;
  isOpen: boolean;
}

interface TreeProps<Row extends TreeRow> {
  label: string;
  rows: readonly Row[];
  onToggle: (row: Row) => void;
  children: (row: Row) => ReactNode;
  rowClass?: (row: Row) => string;
  className: string;
  /** The height of a row before it is measured. */
  rowHeight: number;
}

export function Tree<Row extends TreeRow>({
  label,
  rows,
  onToggle,
  children,
  rowClass,
  className,
  rowHeight,
}: TreeProps<Row>) {
  const scroll = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const wantsFocus = useRef(false);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowHeight,
    getItemKey: (index) => rows[index]?.id ?? index,
    overscan: 12,
    initialRect: { width: 600, height: 420 },
  });
  const moveTo = (index: number) => {
    wantsFocus.current = true;
    setActive(index);
    virtual.scrollToIndex(index);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!(event.target as HTMLElement).matches("[role=treeitem]")) return;
    const row = rows[active];
    const next = rowAfterKey(event.key, active, rows.length, 15);
    if (next !== null) moveTo(next);
    else if (row && event.key === "ArrowRight" && row.isContainer && !row.isOpen) onToggle(row);
    else if (row && event.key === "ArrowLeft" && row.isContainer && row.isOpen) onToggle(row);
    else if (row && event.key === "ArrowLeft") moveTo(parentIndex(rows, active));
    else if (row && event.key === "Enter" && row.isContainer) onToggle(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  useEffect(() => {
    if (!wantsFocus.current) return;
    wantsFocus.current = false;
    scroll.current?.querySelector<HTMLElement>(`[data-row="${active}"]`)?.focus({ preventScroll: true });
  });
  return (
    <div ref={scroll} className={className} role="tree" aria-label={label} onKeyDown={onKeyDown}>
      <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (row === undefined) return null;
          return (
            <div
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              data-row={item.index}
              role="treeitem"
              aria-level={row.depth + 1}
              aria-expanded={row.isContainer ? row.isOpen : undefined}
              tabIndex={item.index === Math.min(active, rows.length - 1) ? 0 : -1}
              className={rowClass?.(row)}
              style={{ position: "absolute", insetInline: 0, top: 0, transform: `translateY(${item.start}px)` }}
              onFocus={(event) => event.target === event.currentTarget && setActive(item.index)}
            >
              {children(row)}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function parentIndex(rows: readonly TreeRow[], index: number): number {
  const depth = rows[index]?.depth ?? 0;
  for (let above = index - 1; above >= 0; above -= 1) {
    if ((rows[above]?.depth ?? 0) < depth) return above;
  }
  return index;
}
