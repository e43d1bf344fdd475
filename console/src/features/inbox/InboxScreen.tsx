// What waits for a decision of the caller.
//
// Keys: ↑ ↓ choose, A approves, R rejects; after a decision the next one is chosen.

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { INBOX_PAGE, POLL_MIN, useRun } from "../../api/queries";
import { decisionNotice, sendApproval } from "../../api/signals";
import type { InboxItem } from "../../api/types";
import { useControl } from "../../api/useControl";
import { useHotkeys } from "../../lib/hotkeys";
import { t } from "../../lib/i18n";
import { paths, useSearchState } from "../../lib/url";
import {
  Button,
  Countdown,
  Empty,
  Facts,
  Icon,
  JsonTree,
  Kbd,
  Link,
  Note,
  Page,
  Pressable,
  Problem,
  Skeleton,
  showToast,
  TextField,
  Time,
} from "../../ui";
import "./inbox.css";

const idOf = (item: InboxItem) => `${item.run}/${item.step}`;

/** The decisions, page by page. */
function useInboxPages() {
  return useInfiniteQuery({
    queryKey: ["inbox", "pages"],
    queryFn: ({ pageParam, signal }) =>
      call("GET /v1/inbox", { query: { limit: INBOX_PAGE, cursor: pageParam || undefined }, signal }),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    refetchInterval: POLL_MIN,
  });
}

export function InboxScreen() {
  const inbox = useInboxPages();
  const { params, set } = useSearchState();
  const items = inbox.data?.pages.flatMap((page) => page.inbox) ?? [];
  const index = Math.max(
    0,
    items.findIndex((item) => idOf(item) === params.get("item")),
  );
  const item = items[index];
  const choose = (next: number) => {
    if (next >= items.length && inbox.hasNextPage) void inbox.fetchNextPage();
    const target = items[Math.max(0, Math.min(items.length - 1, next))];
    if (target) set({ item: idOf(target) });
  };
  useHotkeys([
    { keys: "ArrowDown", run: () => choose(index + 1) },
    { keys: "ArrowUp", run: () => choose(index - 1) },
    { keys: "j", run: () => choose(index + 1) },
    { keys: "k", run: () => choose(index - 1) },
  ]);
  const body = () => {
    if (inbox.isLoadingError) return <Problem problem={toProblem(inbox.error)} onRetry={() => void inbox.refetch()} />;
    if (inbox.isPending) return <Skeleton rows={8} />;
    if (!item)
      return (
        <Empty icon="check" title={t("inbox.none")}>
          {t("inbox.noneText")}
        </Empty>
      );
    return (
      <div className="inbox">
        <ul className="inbox-list" aria-label={t("nav.inbox")}>
          {items.map((one, place) => (
            <li key={idOf(one)}>
              <Pressable
                className={place === index ? "inbox-row selected" : "inbox-row"}
                isCurrent={place === index}
                onPress={() => choose(place)}
              >
                <b className="cut">{one.title ?? one.signal}</b>
                <span className="faint cut">
                  {one.workflow} · {one.step}
                </span>
                <span className="inbox-when faint">
                  {one.due ? (
                    <span className="row is-waiting inbox-due">
                      <Icon name="clock" size={12} /> <Countdown until={one.due} />
                    </span>
                  ) : (
                    <Time at={one.since} />
                  )}
                </span>
              </Pressable>
            </li>
          ))}
          {inbox.hasNextPage && (
            <li className="inbox-more">
              <Button onPress={() => void inbox.fetchNextPage()} isPending={inbox.isFetchingNextPage}>
                {t("ui.more")}
              </Button>
            </li>
          )}
        </ul>
        <Decision
          key={`${idOf(item)} ${item.since}`}
          item={item}
          onNext={() => choose(index + 1 < items.length ? index + 1 : index - 1)}
        />
      </div>
    );
  };
  return <Page title={t("nav.inbox")}>{body()}</Page>;
}

function Decision({ item, onNext }: { item: InboxItem; onNext: () => void }) {
  const client = useQueryClient();
  const canAnswer = useCan("workflow:manage");
  const [comment, setComment] = useState("");
  const run = useRun(item.run);
  const wait = run.data?.open.find((open) => open.step === item.step) ?? item;
  const control = useControl({
    run: item.run,
    version: run.data?.version ?? null,
    send: (request: { isApproved: boolean; comment: string }, conditions) => {
      const { run, signal, match, step } = item;
      return sendApproval({ run, signal, match, wait: { step, since: wait.since }, ...request }, conditions);
    },
    onDone: (decided, { isApproved }) => {
      const { text, tone } = decisionNotice(decided, isApproved);
      showToast(text, tone);
      onNext();
      void client.invalidateQueries({ queryKey: ["inbox"] });
    },
  });
  const answer = (isApproved: boolean) => control.send({ isApproved, comment });
  useHotkeys([
    { keys: "a", run: () => canAnswer && answer(true) },
    { keys: "r", run: () => canAnswer && answer(false) },
  ]);
  const reason = canAnswer ? null : t("problem.forbidden", { permission: "workflow:manage" });
  return (
    <section className="inbox-item" aria-label={item.title ?? item.signal}>
      <h2>{item.title ?? item.signal}</h2>
      <Facts
        facts={[
          [
            t("runs.workflow"),
            <Link key="w" href={paths.workflow(item.workflow)}>
              {item.workflow}
            </Link>,
          ],
          [
            t("inbox.run"),
            <Link key="r" href={`${paths.run(item.run)}?step=${encodeURIComponent(item.step)}`}>
              {item.run}
            </Link>,
          ],
          [t("inbox.since"), <Time key="s" at={item.since} />],
          ...(item.due ? [[t("inbox.due"), <Countdown key="d" until={item.due} />] as const] : []),
        ]}
      />
      <div className="inbox-answer">
        <TextField label={t("inbox.comment")} rows={2} value={comment} onChange={setComment} />
        <div className="row">
          <Button
            tone="primary"
            icon="check"
            reason={reason}
            isPending={control.isPending}
            onPress={() => answer(true)}
          >
            {t("inbox.approve")} <Kbd keys="A" />
          </Button>
          <Button
            tone="danger"
            icon="close"
            reason={reason}
            isPending={control.isPending}
            onPress={() => answer(false)}
          >
            {t("inbox.reject")} <Kbd keys="R" />
          </Button>
        </div>
        {control.error && <DecisionError error={control.error} />}
      </div>
      {item.about !== null && item.about !== undefined && (
        <>
          <h3>{t("inbox.about")}</h3>
          <JsonTree label={t("inbox.about")} value={item.about} />
        </>
      )}
      <h3>{t("run.input")}</h3>
      {run.data ? <JsonTree label={t("run.input")} value={run.data.input} /> : <Skeleton rows={3} />}
    </section>
  );
}

/** Also that the outcome is not known, or that the run has changed: the decision can be made again. */
function DecisionError({ error }: { error: unknown }) {
  const problem = toProblem(error);
  if (problem.isUnknown) return <Note>{t("action.unknown", { detail: problem.message })}</Note>;
  if (problem.code === "CONCURRENCY_ERROR")
    return <Note isAlert>{t("action.changed", { detail: problem.message })}</Note>;
  return <Problem problem={problem} isInline />;
}
