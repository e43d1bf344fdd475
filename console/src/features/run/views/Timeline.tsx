// The timeline of a run: a row per step, a bar per part of an attempt.

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  useEffect,
  useMemo,
  useRef,
  useState,
  type WheelEvent,
} from "react";
import { useLocation } from "wouter";
import type { ApiProblem } from "../../../api/problem";
import { useNow } from "../../../lib/clock";
import { t, tWord } from "../../../lib/i18n";
import { formatClock, formatDuration } from "../../../lib/time";
import { paths, withQuery } from "../../../lib/url";
import { Button, Empty, Icon, kindIcon, Link, rowAfterKey, StatusMark, Switch, showToast } from "../../../ui";
import { axis, type Bar, placeOf, type Segment, type TimelineRow, timeAt, timelineRows } from "../model/timelineModel";
import { useRunPart } from "../runContext";
import { useChildFolds } from "./useChildFolds";

interface TimelineProps {
  selected: string | null;
  onSelect: (key: string) => void;
}

interface Window {
  from: number;
  to: number;
}

const ROW_HEIGHT = 32;
const WHOLE: Window = { from: 0, to: 1 };
const WIDTH_MIN = 0.002;

export function Timeline({ selected, onSelect }: TimelineProps) {
  const fold = useRunPart((view) => view.fold);
  const seq = useRunPart((view) => view.fold.run.seq);
  const at = useRunPart((view) => view.at);
  const tick = useNow();
  const now = at === null ? tick : (fold.run.at ?? tick);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [isSqueezed, setSqueezed] = useState(false);
  const [shown, setShown] = useState<Window>(WHOLE);
  const [openChildren, setOpenChildren] = useState<readonly string[]>([]);
  const close = (run: string, problem: ApiProblem) => {
    const id = rows.find((row) => row.child === run)?.id;
    setOpened(new Set([...opened].filter((one) => one !== id)));
    showToast(problem.message, "bad");
  };
  const children = useChildFolds(openChildren, at === null ? null : fold.run.at, close);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the maps of a fold change in place; the seq says so.
  const rows = useMemo(() => timelineRows(fold, opened, children), [fold, seq, opened, children]);
  const wanted = rows.flatMap((row) => (row.isOpen && row.child !== null ? [row.child] : []));
  if (wanted.join() !== openChildren.join()) setOpenChildren(wanted);
  /** The row of a child run that the keys have reached; it is no step of this run that could be selected. */
  const [childRow, setChildRow] = useState<string | null>(null);
  const [, navigate] = useLocation();
  const current = childRow ?? selected;
  const choose = (row: TimelineRow) => {
    setChildRow(row.run === null ? null : row.id);
    if (row.run === null) onSelect(row.id);
  };
  /** A step of a child run is shown on the page of that run. */
  const show = (row: TimelineRow) => {
    if (row.run === null) choose(row);
    else navigate(withQuery(paths.run(row.run), { view: "timeline", step: row.step?.key }));
  };
  const hasOpen = rows.some((row) => row.bars.some((bar) => bar.to === null));
  const end = hasOpen ? now : 0;
  const segments = useMemo(() => axis(rows, end, isSqueezed), [rows, end, isSqueezed]);
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
    getItemKey: (index) => rows[index]?.id ?? index,
    initialRect: { width: 1000, height: 600 },
  });
  const toggle = (row: TimelineRow) => {
    const next = new Set(opened);
    if (!next.delete(row.id)) next.add(row.id);
    setOpened(next);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const index = rows.findIndex((row) => row.id === current);
    const row = rows[index];
    if (row && event.key === "Enter" && row.run !== null) show(row);
    else if (row?.canOpen && ((event.key === "ArrowRight" && !row.isOpen) || (event.key === "ArrowLeft" && row.isOpen)))
      toggle(row);
    else {
      const next = rowAfterKey(event.key, Math.max(index, 0), rows.length, 10);
      const target = next === null || (event.key !== "ArrowDown" && event.key !== "ArrowUp") ? undefined : rows[next];
      if (!target?.step) return;
      choose(target);
      virtual.scrollToIndex(next ?? 0);
    }
    event.preventDefault();
    event.stopPropagation();
  };
  if (rows.length === 0) return <Empty icon="clock" title={t("timeline.none")} />;
  const cursor = at === null || fold.run.at === null ? null : placeOf(segments, fold.run.at);
  return (
    <div className="timeline">
      <div className="timeline-bar">
        <Legend />
        <span className="grow" />
        <Switch isSelected={isSqueezed} onChange={setSqueezed}>
          {t("timeline.squeeze")}
        </Switch>
        <Button size="small" icon="plus" label={t("graph.zoomIn")} onPress={() => setShown(zoom(shown, 0.5, 0.6))} />
        <Button size="small" icon="minus" label={t("graph.zoomOut")} onPress={() => setShown(zoom(shown, 0.5, 1.6))} />
        <Button size="small" icon="fit" label={t("graph.fit")} onPress={() => setShown(WHOLE)} />
      </div>
      <Ruler segments={segments} shown={shown} />
      <div
        ref={scroll}
        className="timeline-rows"
        role="tree"
        aria-label={t("timeline.label")}
        tabIndex={0}
        onKeyDown={onKeyDown}
      >
        <Chart shown={shown} onShow={setShown} height={Math.max(virtual.getTotalSize(), 1)}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            return (
              <div
                key={item.key}
                role="treeitem"
                tabIndex={-1}
                aria-level={row.depth + 1}
                aria-expanded={row.canOpen ? row.isOpen : undefined}
                aria-selected={row.id === current}
                className={row.id === current ? "timeline-row selected" : "timeline-row"}
                style={{ transform: `translateY(${item.start}px)` }}
                onClick={() => row.step && show(row)}
                onKeyDown={() => undefined}
              >
                <Label row={row} onToggle={() => toggle(row)} />
                <div className="timeline-lane">
                  {row.bars.map((bar, index) => (
                    <BarView key={index} bar={bar} segments={segments} shown={shown} now={now} />
                  ))}
                </div>
              </div>
            );
          })}
        </Chart>
        <Gaps segments={segments} shown={shown} />
        {cursor !== null && <Line place={cursor} shown={shown} />}
      </div>
    </div>
  );
}

const onScreen = (place: number, { from, to }: Window) => (place - from) / (to - from);
const percent = (part: number) => `${(part * 100).toFixed(4)}%`;

function zoom(shown: Window, around: number, factor: number): Window {
  const middle = shown.from + (shown.to - shown.from) * around;
  const width = Math.min(1, Math.max(WIDTH_MIN, (shown.to - shown.from) * factor));
  return clamp({ from: middle - width * around, to: middle + width * (1 - around) });
}

function clamp({ from, to }: Window): Window {
  const width = Math.min(1, to - from);
  const start = Math.max(0, Math.min(1 - width, from));
  return { from: start, to: start + width };
}

interface ChartProps {
  shown: Window;
  onShow: (shown: Window) => void;
  height: number;
  children: ReactNode;
}

/** Zooms with Ctrl and the wheel, pans by dragging; only along the time. */
function Chart({ shown, onShow, height, children }: ChartProps) {
  const drag = useRef<{ x: number; shown: Window; width: number } | null>(null);
  const element = useRef<HTMLDivElement>(null);
  const latest = useRef({ shown, onShow });
  latest.current = { shown, onShow };
  useEffect(() => {
    const target = element.current;
    const listen = (event: globalThis.WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { shown, onShow } = latest.current;
      onShow(zoom(shown, 0.5, event.deltaY > 0 ? 1.25 : 0.8));
    };
    // A listener of React is passive: it cannot keep the browser from zooming the page.
    target?.addEventListener("wheel", listen, { passive: false });
    return () => target?.removeEventListener("wheel", listen);
  }, []);
  const onWheel = (event: WheelEvent) => {
    if (event.ctrlKey || event.metaKey || Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    const step = (event.deltaX / 800) * (shown.to - shown.from);
    onShow(clamp({ from: shown.from + step, to: shown.to + step }));
  };
  const onPointerDown = (event: PointerEvent) => {
    const lane = (event.target as HTMLElement).closest<HTMLElement>(".timeline-lane");
    if (lane) drag.current = { x: event.clientX, shown, width: lane.clientWidth };
  };
  const onPointerMove = (event: PointerEvent) => {
    const start = drag.current;
    if (start === null || event.buttons === 0) return;
    const step = ((start.x - event.clientX) / start.width) * (start.shown.to - start.shown.from);
    onShow(clamp({ from: start.shown.from + step, to: start.shown.to + step }));
  };
  return (
    <div
      ref={element}
      role="presentation"
      style={{ height, position: "relative" }}
      onWheel={onWheel}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={() => {
        drag.current = null;
      }}
    >
      {children}
    </div>
  );
}

function Label({ row, onToggle }: { row: TimelineRow; onToggle: () => void }) {
  const { step } = row;
  const activity = step?.activity;
  return (
    <div className="timeline-label" style={{ paddingInlineStart: 12 + row.depth * 16 }}>
      {row.canOpen ? (
        <Button
          size="small"
          tone="ghost"
          icon={row.isOpen ? "chevronDown" : "chevronRight"}
          label={row.isOpen ? t("timeline.close") : t("timeline.open")}
          onPress={onToggle}
        />
      ) : (
        <span style={{ width: 24, flex: "none" }} />
      )}
      <StatusMark status={row.status} />
      {step && <Icon name={kindIcon(step.type)} size={14} />}
      <span className="cut grow" title={row.id}>
        {step ? row.label : t("timeline.turns")}
      </span>
      {row.inside > 0 && <span className="faint">×{row.inside}</span>}
      {activity?.does === "child" && (
        <Link href={paths.run(activity.run)} label={t("timeline.childRun")}>
          <Icon name="arrowRight" size={14} />
        </Link>
      )}
    </div>
  );
}

interface BarViewProps {
  bar: Bar;
  segments: readonly Segment[];
  shown: Window;
  now: number;
}

function BarView({ bar, segments, shown, now }: BarViewProps) {
  const from = onScreen(placeOf(segments, bar.from), shown);
  const to = onScreen(placeOf(segments, bar.to ?? now), shown);
  if (to < 0 || from > 1) return null;
  const length = formatDuration((bar.to ?? now) - bar.from);
  const title = `${tWord("bar", bar.kind)} · ${t("graph.attempt", { n: bar.attempt })} · ${length}`;
  const left = Math.max(0, from);
  return (
    <div
      className={`timeline-part ${bar.kind} is-${bar.status}`}
      style={{ left: percent(left), width: `max(2px, ${percent(Math.min(1, to) - left)})` }}
      title={title}
    >
      <span>{length}</span>
    </div>
  );
}

function Ruler({ segments, shown }: { segments: readonly Segment[]; shown: Window }) {
  const start = segments[0]?.from ?? 0;
  return (
    <div className="timeline-ruler" aria-hidden="true">
      {[0, 0.2, 0.4, 0.6, 0.8].map((part) => {
        const time = timeAt(segments, shown.from + (shown.to - shown.from) * part);
        return (
          <span key={part} style={{ left: percent(part) }} title={formatClock(time, true)}>
            +{formatDuration(time - start)}
          </span>
        );
      })}
    </div>
  );
}

function Gaps({ segments, shown }: { segments: readonly Segment[]; shown: Window }) {
  const gaps = segments.filter((segment) => segment.isSqueezed);
  return (
    <div className="timeline-over" aria-hidden="true">
      {gaps.map((gap) => (
        <span
          key={gap.from}
          className="timeline-gap"
          style={{
            left: percent(onScreen(gap.start, shown)),
            width: percent((gap.end - gap.start) / (shown.to - shown.from)),
          }}
          title={t("timeline.idle", { length: formatDuration(gap.to - gap.from) })}
        >
          {formatDuration(gap.to - gap.from)}
        </span>
      ))}
    </div>
  );
}

function Line({ place, shown }: { place: number; shown: Window }) {
  return (
    <div className="timeline-over" aria-hidden="true">
      <span className="timeline-cursor" style={{ left: percent(onScreen(place, shown)) }} />
    </div>
  );
}

function Legend() {
  return (
    <div className="row timeline-legend">
      {(["queued", "work", "wait", "backoff", "lost"] as const).map((kind) => (
        <span key={kind} className="row">
          <i className={`timeline-part ${kind} is-completed`} />
          {tWord("bar", kind)}
        </span>
      ))}
    </div>
  );
}
