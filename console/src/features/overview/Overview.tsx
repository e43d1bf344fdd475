// What runs now, what waits, what fails, and who is in trouble.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { call } from "../../api/client";
import { isServerAdmin, may, useMe } from "../../api/me";
import { toProblem } from "../../api/problem";
import { POLL_MIN, useInbox, useNodes, useWorkers, useWorkflows } from "../../api/queries";
import { liveSocket } from "../../api/socket";
import type { RunSummary, Runs } from "../../api/types";
import { commands } from "../../lib/commands";
import { formatNumber, t, tWord } from "../../lib/i18n";
import { shortId } from "../../lib/id";
import { RUN_STATUSES } from "../../lib/status";
import { paths } from "../../lib/url";
import { Card, Duration, Empty, Icon, Link, Note, Page, Problem, Skeleton, Status, StatusMark, Time } from "../../ui";
import { type Counts, countsOf, failuresByCode, readOldest } from "./overviewModel";
import "./overview.css";

const LISTED = 6;
const READ = 200;
const LATEST = 8;

interface LiveCounts extends Partial<Counts> {
  /** Nodes that have not replied. */
  silent?: readonly string[];
}

function useCounts(): { counts: Counts; silent: number; error: unknown; isPending: boolean } {
  const workflows = useWorkflows();
  const [live, setLive] = useState<LiveCounts | null>(null);
  useEffect(() => {
    return liveSocket().followWorkspace((message) => {
      if (message.workspace === "counts") setLive(message.data);
      else if (message.workspace === "gap") setLive(null);
    });
  }, []);
  const counts = countsOf(workflows.data ?? [], live);
  return { counts, silent: live?.silent?.length ?? 0, error: workflows.error, isPending: workflows.isPending };
}

function readRuns(query: Record<string, string>, signal: AbortSignal): Promise<Runs> {
  return call("GET /v1/runs", { query: new URLSearchParams({ limit: String(READ), ...query }), signal });
}

function useFailed() {
  return useQuery({
    queryKey: ["runs", "overview", "failed"],
    queryFn: ({ signal }) => readRuns({ status: "failed" }, signal),
    refetchInterval: POLL_MIN,
  });
}

function useLongestWaiting() {
  return useQuery({
    queryKey: ["runs", "overview", "waiting"],
    queryFn: ({ signal }) => {
      const read = (until: number | null) =>
        readRuns({ status: "waiting", ...(until === null ? {} : { until: new Date(until).toISOString() }) }, signal);
      return readOldest(read, Date.now(), LISTED);
    },
    refetchInterval: POLL_MIN,
  });
}

function useLatestRuns() {
  return useQuery({
    queryKey: ["runs", "overview", "latest"],
    queryFn: ({ signal }) => readRuns({ limit: String(LATEST) }, signal),
    refetchInterval: POLL_MIN,
  });
}

export function Overview({ figures }: { figures: ReactNode }) {
  const { counts, silent, error, isPending } = useCounts();
  const isEmpty = !isPending && RUN_STATUSES.every((status) => counts[status] === 0);
  return (
    <Page title={t("nav.overview")}>
      {error ? (
        <Problem problem={toProblem(error)} />
      ) : isEmpty ? (
        <Empty icon="play" title={t("overview.empty")} command={commands.firstRun}>
          {t("overview.emptyText")}
        </Empty>
      ) : (
        <div className="ui-scroll overview">
          <div className="tiles">
            {RUN_STATUSES.map((status) => (
              <Link
                key={status}
                href={paths.runs({ status })}
                className={counts[status] === 0 ? "tile none" : `tile is-${status}`}
              >
                <span className="row">
                  <StatusMark status={status} />
                  <span className="muted">{tWord("status", status)}</span>
                </span>
                <b>
                  {isPending
                    ? "–"
                    : formatNumber(counts[status], counts[status] > 99_999 ? { notation: "compact" } : {})}
                </b>
              </Link>
            ))}
          </div>
          {silent > 0 && <Note>{t("overview.silent", { n: silent })}</Note>}
          {figures}
          <div className="overview-cards">
            <Failures />
            <Waiting />
            <Trouble />
          </div>
          <Latest />
        </div>
      )}
    </Page>
  );
}

function Failures() {
  const failed = useFailed();
  return (
    <Card
      title={t("overview.failures")}
      action={<Link href={paths.runs({ status: "failed" })}>{t("overview.all")}</Link>}
    >
      <Loaded query={failed} none={t("overview.noFailures")}>
        {failuresByCode(failed.data?.runs ?? [])
          .slice(0, LISTED)
          .map((group) => (
            <Link key={group.code} href={paths.run(group.latest.id)} className="line">
              <span className="line-count is-failed">{formatNumber(group.count)}</span>
              <span className="grow line-text">
                <code className="cut">{group.code}</code>
                <span className="faint cut" title={group.latest.error?.message}>
                  {group.workflows.slice(0, 2).join(", ")} · {group.latest.error?.message}
                </span>
              </span>
              <span className="faint">
                <Time at={group.latest.endedAt} />
              </span>
            </Link>
          ))}
      </Loaded>
    </Card>
  );
}

function Waiting() {
  const waiting = useLongestWaiting();
  const isPart = Boolean(waiting.data?.nextCursor);
  return (
    <Card
      title={isPart ? t("overview.waitingPart", { n: READ }) : t("overview.waiting")}
      action={<Link href={paths.runs({ status: "waiting" })}>{t("overview.all")}</Link>}
    >
      <Loaded query={waiting} none={t("overview.noWaiting")}>
        {waiting.data?.runs.map((run) => (
          <Link key={run.id} href={paths.run(run.id)} className="line">
            <StatusMark status="waiting" />
            <span className="grow line-text">
              <span className="cut">{run.workflow}</span>
              <span className="mono faint">{shortId(run.id)}</span>
            </span>
            <span className="faint">
              {t("overview.started")} <Time at={run.createdAt} />
            </span>
          </Link>
        ))}
      </Loaded>
    </Card>
  );
}

function Latest() {
  const latest = useLatestRuns();
  return (
    <Card title={t("overview.latest")} action={<Link href={paths.runs()}>{t("overview.all")}</Link>}>
      <Loaded query={latest} none={t("runs.none")}>
        {latest.data?.runs.map((run) => (
          <Link key={run.id} href={paths.run(run.id)} className="line run-line">
            <Status status={run.status} />
            <span className="cut">{run.workflow}</span>
            <span className="mono faint">{shortId(run.id)}</span>
            <span className="cut muted" title={run.error?.message}>
              {run.error && `${run.error.code} ${run.error.message}`}
            </span>
            <span className="faint">
              <Time at={run.createdAt} />
            </span>
            <span className="faint">
              <Duration from={run.createdAt} to={run.endedAt} />
            </span>
          </Link>
        ))}
      </Loaded>
    </Card>
  );
}

interface LoadedProps {
  query: { data?: { runs: RunSummary[] }; error: unknown; isPending: boolean };
  none: string;
  children: ReactNode;
}

function Loaded({ query, none, children }: LoadedProps) {
  if (query.error) return <Problem problem={toProblem(query.error)} isInline />;
  if (query.isPending) return <Skeleton rows={4} />;
  if (query.data?.runs.length === 0) return <p className="card-none">{none}</p>;
  return <div className="lines">{children}</div>;
}

function Trouble() {
  const me = useMe().data;
  const isAdmin = me !== undefined && isServerAdmin(me);
  const canAct = me !== undefined && may(me.permissions, "workflow:act");
  const workers = useWorkers();
  const nodes = useNodes(isAdmin);
  const inbox = useInbox(canAct);
  const bad = nodes.data?.nodes.filter((node) => node.isExpired || node.isFenced) ?? [];
  const silent = workers.data?.silentNodes ?? [];
  const busy = workers.data?.workers.filter((worker) => worker.running >= worker.capacity) ?? [];
  return (
    <Card title={t("overview.system")}>
      <div className="lines">
        {inbox.data && (
          <Line
            href="/inbox"
            icon="inbox"
            tone={inbox.data.inbox.length > 0 ? "waiting" : "cancelled"}
            text={
              inbox.data.nextCursor === null
                ? t("overview.inbox", { n: inbox.data.inbox.length })
                : t("overview.inboxMany", { count: inbox.data.inbox.length })
            }
          />
        )}
        {workers.data && (
          <Line
            href="/workers"
            icon="worker"
            tone={workers.data.workers.length > 0 ? "completed" : "cancelled"}
            text={t("overview.workers", { n: workers.data.workers.length })}
          />
        )}
        {busy.length > 0 && (
          <Line href="/workers" icon="worker" tone="waiting" text={t("overview.busyWorkers", { n: busy.length })} />
        )}
        {isAdmin && nodes.data && (
          <Line
            href="/nodes"
            icon="node"
            tone="completed"
            text={t("overview.nodes", { n: nodes.data.nodes.length - bad.length })}
          />
        )}
        {bad.length > 0 && (
          <Line href="/nodes" icon="alert" tone="failed" text={t("overview.badNodes", { n: bad.length })} />
        )}
        {silent.length > 0 && (
          <Line href="/nodes" icon="alert" tone="failed" text={t("overview.silentNodes", { n: silent.length })} />
        )}
      </div>
    </Card>
  );
}

function Line({
  href,
  icon,
  tone,
  text,
}: {
  href: string;
  icon: "inbox" | "worker" | "node" | "alert";
  tone: string;
  text: string;
}) {
  return (
    <Link href={href} className={`line is-${tone}`}>
      <span className="line-icon">
        <Icon name={icon} />
      </span>
      <span className="grow">{text}</span>
      <Icon name="chevronRight" size={14} />
    </Link>
  );
}
