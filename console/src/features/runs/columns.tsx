// The columns of the list of runs.

import type { RunSummary } from "../../api/types";
import { t } from "../../lib/i18n";
import { shortId } from "../../lib/id";
import { isObject } from "../../lib/json";
import { paths } from "../../lib/url";
import { type Column, Duration, Link, Status, Tag, Time } from "../../ui";

const all = (): ReadonlyArray<Column<RunSummary>> => [
  { id: "status", title: t("runs.status"), width: "104px", cell: (run) => <Status status={run.status} /> },
  {
    id: "workflow",
    title: t("runs.workflow"),
    width: "minmax(140px, 1.4fr)",
    cell: (run) => (
      <Link href={paths.run(run.id)} isQuiet title={run.workflow}>
        <b className="runs-name">{run.workflow}</b> <span className="faint">v{run.workflowVersion}</span>
      </Link>
    ),
  },
  {
    id: "id",
    title: t("runs.id"),
    width: "118px",
    cell: (run) => (
      <span className="mono muted" title={run.id}>
        {shortId(run.id)}
      </span>
    ),
  },
  {
    id: "error",
    title: t("runs.error"),
    width: "minmax(120px, 2fr)",
    cell: (run) =>
      run.error && (
        <span className="runs-error" title={`${run.error.code}: ${run.error.message}`}>
          <code>{run.error.code}</code> {run.error.message}
        </span>
      ),
  },
  { id: "tags", title: t("runs.tags"), width: "minmax(80px, 1fr)", cell: (run) => <Tags tags={run.tags} /> },
  { id: "created", title: t("runs.created"), width: "112px", cell: (run) => <Time at={run.createdAt} /> },
  {
    id: "duration",
    title: t("runs.duration"),
    width: "88px",
    align: "end",
    cell: (run) => <Duration from={run.createdAt} to={run.endedAt} />,
  },
  {
    id: "parent",
    title: t("runs.parent"),
    width: "118px",
    cell: (run) =>
      run.parent && (
        <Link href={paths.run(run.parent)} isQuiet title={run.parent}>
          <span className="mono">{shortId(run.parent)}</span>
        </Link>
      ),
  },
  {
    id: "origin",
    title: t("runs.origin"),
    width: "118px",
    cell: (run) =>
      run.origin && (
        <Link href={paths.run(run.origin)} isQuiet title={run.origin}>
          <span className="mono">{shortId(run.origin)}</span>
        </Link>
      ),
  },
];

function Tags({ tags }: { tags: unknown }) {
  if (!isObject(tags)) return null;
  return (
    <span className="row" style={{ gap: 4 }}>
      {Object.entries(tags).map(([name, value]) => (
        <Tag key={name}>{`${name}=${String(value)}`}</Tag>
      ))}
    </span>
  );
}

export function columnsOf(ids: readonly string[]): ReadonlyArray<Column<RunSummary>> {
  return all().filter((column) => ids.includes(column.id));
}

export function columnTitle(id: string): string {
  return all().find((column) => column.id === id)?.title ?? id;
}
