// What waits for a decision of the caller.
//
// Keys: ↑ ↓ choose, A approves, R rejects; after a decision the next one is chosen.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { call } from "../../api/client";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { useInbox } from "../../api/queries";
import type { InboxItem } from "../../api/types";
import { useHotkeys } from "../../lib/hotkeys";
import { t } from "../../lib/i18n";
import { newIdempotencyKey } from "../../lib/id";
import { isObject } from "../../lib/json";
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

export function InboxScreen() {
  const inbox = useInbox(true);
  const { params, set } = useSearchState();
  const items = inbox.data?.inbox ?? [];
  const index = Math.max(
    0,
    items.findIndex((item) => idOf(item) === params.get("item")),
  );
  const item = items[index];
  const choose = (next: number) => {
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
        </ul>
        <Decision
          key={idOf(item)}
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
  const key = useRef(newIdempotencyKey());
  const run = useQuery({
    queryKey: ["run", item.run],
    queryFn: ({ signal }) => call("GET /v1/runs/{id}", { path: { id: item.run }, signal }),
  });
  const answer = useMutation({
    mutationFn: (isApproved: boolean) => {
      const match = isObject(item.match) ? item.match : {};
      const payload = { ...match, approved: isApproved, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) };
      return call("POST /v1/runs/{id}/signals/{event}", {
        path: { id: item.run, event: item.signal },
        body: payload as never,
        headers: { "idempotency-key": key.current },
      });
    },
    retry: (count, error) => toProblem(error).isUnknown && count < 3,
    onSuccess: (_, isApproved) => {
      showToast(isApproved ? t("inbox.approved") : t("inbox.rejected"));
      onNext();
      void client.invalidateQueries({ queryKey: ["inbox"] });
    },
  });
  useHotkeys([
    { keys: "a", run: () => canAnswer && answer.mutate(true) },
    { keys: "r", run: () => canAnswer && answer.mutate(false) },
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
            isPending={answer.isPending}
            onPress={() => answer.mutate(true)}
          >
            {t("inbox.approve")} <Kbd keys="A" />
          </Button>
          <Button
            tone="danger"
            icon="close"
            reason={reason}
            isPending={answer.isPending}
            onPress={() => answer.mutate(false)}
          >
            {t("inbox.reject")} <Kbd keys="R" />
          </Button>
        </div>
        {answer.error && <Problem problem={toProblem(answer.error)} isInline />}
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
