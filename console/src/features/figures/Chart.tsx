// A chart of figures over time, and the same figures as a table for screen readers.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { intlLocale, t } from "../../lib/i18n";
import { useStore } from "../../lib/store";
import { themeStore } from "../../lib/theme";
import { DAY } from "../../lib/time";

export interface Series {
  label: string;
  /** The name of a token: `--completed-fill`. */
  colour: string;
  values: ReadonlyArray<number | null>;
  /** Values on which bars stand. */
  base?: ReadonlyArray<number | null>;
  kind: "bars" | "line";
}

/** The line with the names and values below a chart. */
const LEGEND_HEIGHT = 28;

interface ChartProps {
  label: string;
  /** Seconds since 1970. */
  times: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
  height: number;
}

export function Chart({ label, times, series, format, height }: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const theme = useStore(themeStore);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours depend on the theme.
  useEffect(() => {
    const target = element.current;
    if (!target || times.length === 0) return;
    const plot = new uPlot(
      options(target, series, times, format, height),
      [[...times], ...series.map((one) => one.values.map((value, index) => drawn(value, one.base?.[index])))],
      target,
    );
    const resize = new ResizeObserver(() => plot.setSize({ width: target.clientWidth, height }));
    resize.observe(target);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [series, times, format, height, theme]);
  return (
    <figure className="chart" aria-label={label}>
      <div ref={element} aria-hidden="true" style={{ minHeight: height + LEGEND_HEIGHT }} />
      <table className="sr">
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">{t("journal.time")}</th>
            {series.map((one) => (
              <th key={one.label} scope="col">
                {one.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time, index) => (
            <tr key={time}>
              <th scope="row">{new Date(time * 1_000).toISOString()}</th>
              {series.map((one) => (
                <td key={one.label}>{one.values[index] == null ? "–" : format(one.values[index])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

/** The height at which a value is drawn. */
function drawn(value: number | null, base: number | null | undefined): number | null {
  return value === null ? null : value + (base ?? 0);
}

/** The values without a neighbour, through which no line leads. */
function lonely(values: ReadonlyArray<number | null>): number[] {
  const has = (index: number) => values[index] != null;
  return [...values.keys()].filter((index) => has(index) && !has(index - 1) && !has(index + 1));
}

function options(
  target: HTMLElement,
  series: readonly Series[],
  times: readonly number[],
  format: (value: number) => string,
  height: number,
): uPlot.Options {
  const style = getComputedStyle(target);
  const token = (name: string) => resolveColour(target, style.getPropertyValue(name));
  const length = ((times.at(-1) ?? 0) - (times[0] ?? 0)) * 1_000;
  const parts: Intl.DateTimeFormatOptions =
    length > 2 * DAY ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const day = new Intl.DateTimeFormat(intlLocale(), parts);
  const grid = { stroke: token("--border"), width: 1 };
  const axis = { stroke: token("--faint"), grid, ticks: { show: false }, font: "11px Inter, sans-serif" };
  return {
    width: target.clientWidth,
    height,
    padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { show: true, live: true },
    hooks: {
      // Without the pointer, the legend shows the latest values.
      ready: [(plot) => plot.setLegend({ idx: times.length - 1 })],
      setCursor: [(plot) => plot.cursor.idx == null && plot.setLegend({ idx: times.length - 1 }, false)],
    },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        values: (_, splits) => splits.map((split) => day.format(split * 1_000)),
        space: 80,
      },
      { ...axis, size: 56, values: (_, splits) => splits.map(format), space: 36 },
    ],
    series: [
      {
        label: t("journal.time"),
        value: (_, time) => (time == null ? "" : day.format(time * 1_000)),
      },
      ...series.map<uPlot.Series>((one) => ({
        label: one.label,
        stroke: token(one.colour),
        width: one.kind === "bars" ? 0 : 1.75,
        ...(one.kind === "bars"
          ? { fill: token(one.colour), paths: uPlot.paths.bars?.({ size: [0.7, 24], radius: 0.15 }) }
          : {}),
        points: {
          show: one.kind === "line",
          size: 6,
          fill: token(one.colour),
          filter: () => lonely(one.values),
        },
        value: (_: uPlot, __: number | null, ___: number, index: number | null) => {
          const value = index === null ? null : one.values[index];
          return value == null ? "–" : format(value);
        },
        spanGaps: true,
      })),
    ],
  };
}

/** A canvas does not understand `light-dark()`: the browser computes the colour on an element. */
function resolveColour(target: HTMLElement, value: string): string {
  const probe = document.createElement("i");
  probe.style.color = value;
  target.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
