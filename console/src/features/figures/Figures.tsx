// Runs and durations over time.

import { lazy, Suspense, useMemo, useState } from "react";
import { SPANS, type Span, useStats } from "../../api/figures";
import { toProblem } from "../../api/problem";
import { formatNumber, t } from "../../lib/i18n";
import { formatDuration, toMs } from "../../lib/time";
import { Card, Problem, Segmented, Skeleton } from "../../ui";
import "./figures.css";

const Chart = lazy(() => import("./Chart").then((module) => ({ default: module.Chart })));

const HEIGHT = 200;

export function Figures({ workflow }: { workflow?: string }) {
  const [span, setSpan] = useState<Span>("1h");
  const stats = useStats(span, workflow);
  const data = useMemo(() => {
    const buckets = stats.data?.buckets ?? [];
    const pick = (name: "completed" | "failed" | "started" | "p50Ms" | "p95Ms") =>
      buckets.map((bucket) => bucket[name]);
    return {
      times: buckets.map((bucket) => toMs(bucket.at) / 1_000),
      runs: [
        {
          label: t("figures.completed"),
          colour: "--completed-fill",
          values: pick("completed"),
          base: pick("failed"),
          kind: "bars" as const,
        },
        { label: t("figures.failed"), colour: "--failed-fill", values: pick("failed"), kind: "bars" as const },
        { label: t("figures.started"), colour: "--running-fill", values: pick("started"), kind: "line" as const },
      ],
      durations: [
        { label: t("figures.p50"), colour: "--running-fill", values: pick("p50Ms"), kind: "line" as const },
        { label: t("figures.p95"), colour: "--paused-fill", values: pick("p95Ms"), kind: "line" as const },
      ],
    };
  }, [stats.data]);
  const select = (
    <Segmented
      label={t("figures.span")}
      options={SPANS.map((id) => ({ id, label: t(`span.${id}`) }))}
      value={span}
      onChange={setSpan}
    />
  );
  const body = (kind: "runs" | "durations") => {
    if (stats.error) return <Problem problem={toProblem(stats.error)} isInline onRetry={() => void stats.refetch()} />;
    if (!stats.data) return <Skeleton rows={5} />;
    const format = kind === "runs" ? (value: number) => formatNumber(value) : formatDuration;
    return (
      <Suspense fallback={<Skeleton rows={5} />}>
        <Chart label={t(`figures.${kind}`)} times={data.times} series={data[kind]} format={format} height={HEIGHT} />
      </Suspense>
    );
  };
  return (
    <div className="figures">
      <Card title={t("figures.runs")} action={select}>
        {body("runs")}
      </Card>
      <Card title={t("figures.durations")}>{body("durations")}</Card>
    </div>
  );
}
