// What the run is, why it waits, and what belongs to it.

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { call } from "../../../api/client";
import type { Run } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { shortId } from "../../../lib/id";
import { isObject } from "../../../lib/json";
import { paths, withQuery } from "../../../lib/url";
import { Copyable, Countdown, Duration, Icon, Link, Moment, StatusMark, Tag, Time } from "../../../ui";
import { Approval, waitKey } from "../actions/Approval";
import { sentenceAt, splitAtTimes } from "../model/sentence";
import { useRunPart } from "../runContext";

export function RunHeader({ run }: { run: Run }) {
  const children = useQuery({
    queryKey: ["runs", "children", run.id],
    queryFn: ({ signal }) =>
      call("GET /v1/runs", { query: new URLSearchParams({ parent: run.id, limit: "1" }), signal }),
    staleTime: 30_000,
  });
  const hasForks = useHasForks(run.id);
  const tags = isObject(run.tags) ? Object.entries(run.tags) : [];
  return (
    <div className="run-head">
      <Sentence run={run} />
      <div className="run-facts">
        <Fact name={t("run.id")}>
          <Copyable text={run.id} isMono />
        </Fact>
        <Fact name={t("run.started")}>
          <Time at={run.createdAt} />
        </Fact>
        <Fact name={t("run.duration")}>
          <Duration from={run.createdAt} to={run.endedAt} />
        </Fact>
        {run.worker && <Fact name={t("run.worker")}>{run.worker}</Fact>}
        {run.owner && (
          <Fact name={t("run.owner")}>
            <Copyable text={run.owner} shown={shortId(run.owner)} isMono />
          </Fact>
        )}
        {run.idempotencyKey && (
          <Fact name={t("run.key")}>
            <Copyable text={run.idempotencyKey} isMono />
          </Fact>
        )}
        {run.parent && (
          <Fact name={t("run.parent")}>
            <Link href={paths.run(run.parent)}>{shortId(run.parent)}</Link>
          </Fact>
        )}
        {run.origin && (
          <Fact name={t("run.origin")}>
            <Link href={paths.run(run.origin)}>{shortId(run.origin)}</Link>{" "}
            <Link href={paths.diff(run.origin, run.id)}>{t("run.compare")}</Link>
          </Fact>
        )}
        {run.trigger && (
          <Fact name={t("run.trigger")}>
            <Link href={paths.runs({ trigger: `${run.trigger.type}:${run.trigger.id}` })}>
              {run.trigger.topic ?? shortId(run.trigger.id)}
            </Link>
          </Fact>
        )}
        {(children.data?.runs.length ?? 0) > 0 && (
          <Fact name={t("run.children")}>
            <Link href={paths.runs({ parent: run.id })}>{t("run.show")}</Link>
          </Fact>
        )}
        {hasForks && (
          <Fact name={t("run.forks")}>
            <Link href={withQuery("/runs", { origin: run.id })}>{t("run.show")}</Link>
          </Fact>
        )}
        {tags.map(([name, value]) => (
          <Tag key={name}>{`${name}=${String(value)}`}</Tag>
        ))}
      </div>
    </div>
  );
}

function useHasForks(id: string): boolean {
  const forks = useQuery({
    queryKey: ["runs", "forks", id],
    queryFn: ({ signal }) => call("GET /v1/runs", { query: new URLSearchParams({ origin: id, limit: "1" }), signal }),
    staleTime: 30_000,
  });
  return (forks.data?.runs.length ?? 0) > 0;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <span className="run-fact">
      <span className="faint">{name}</span> {children}
    </span>
  );
}

/** The reason why the run waits, failed or is paused; at an entry of the past, as it was there. */
function Sentence({ run }: { run: Run }) {
  const at = useRunPart((view) => view.at);
  const past = useRunPart((view) => (view.at === null ? null : sentenceAt(view.fold)));
  if (at !== null) {
    if (past === null) return null;
    return (
      <div className="run-sentence is-cancelled">
        <Icon name="clock" />
        <span className="grow">{past}</span>
      </div>
    );
  }
  const due = run.open.find((open) => open.due)?.due ?? run.wakeAt;
  const approval = run.open.find((open) => open.approval);
  if (run.waitingFor === null && run.error === null) return null;
  return (
    <div className={`run-sentence is-${run.status}`}>
      <StatusMark status={run.status} size={16} />
      <span className="grow run-sentence-text">
        {run.waitingFor === null ? `${run.error?.code}: ${run.error?.message}` : <WithTimes text={run.waitingFor} />}
        {due && run.status === "waiting" && (
          <span className="muted">
            {" "}
            · {t("run.in")} <Countdown until={due} />
          </span>
        )}
      </span>
      {approval && <Approval key={waitKey(approval)} run={run} wait={approval} />}
    </div>
  );
}

/** A sentence of the server, with its times as the console writes them. */
function WithTimes({ text }: { text: string }) {
  return splitAtTimes(text).map((part, index) => (index % 2 === 1 ? <Moment key={index} at={part} /> : part));
}
