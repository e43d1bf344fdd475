// Cancels, pauses, resumes or retries many runs, after it has counted them.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import type { Bulk, Gathered } from "../../api/types";
import { t } from "../../lib/i18n";
import { newIdempotencyKey } from "../../lib/id";
import { Confirm, Problem, Skeleton, showToast, TextField } from "../../ui";
import { type Term, termsToBulk } from "./filterModel";

export type BulkAction = "retry" | "cancel" | "pause" | "resume";

export interface BulkTarget {
  action: BulkAction;
  /** Exactly these runs, or all that the filter selects. */
  ids: readonly string[] | null;
}

interface BulkDialogProps {
  target: BulkTarget;
  terms: readonly Term[];
  onClose: () => void;
}

const LIMIT = 10_000;

export function BulkDialog({ target, terms, onClose }: BulkDialogProps) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const key = useRef(newIdempotencyKey());
  const body = (isDry: boolean): Bulk => ({
    action: target.action,
    filter: termsToBulk(terms, Date.now()) as Bulk["filter"],
    all: terms.length === 0,
    dryRun: isDry,
    limit: LIMIT,
    ...(target.action === "cancel" && reason !== "" ? { reason } : {}),
  });
  const count = useQuery({
    queryKey: ["bulk", target.action, terms],
    queryFn: ({ signal }) => call("POST /v1/runs/bulk", { body: body(true), signal }),
    enabled: target.ids === null,
    staleTime: 0,
    gcTime: 0,
  });
  const act = useMutation({
    mutationFn: () =>
      target.ids === null ? bulk(body(false), key.current) : each(target.action, target.ids, key.current, reason),
    onSuccess: (result) => {
      showToast(
        t("bulk.done", { accepted: result.accepted, ignored: result.ignored, refused: result.refused }),
        result.refused > 0 ? "bad" : "good",
      );
      void client.invalidateQueries({ queryKey: ["runs"] });
      onClose();
    },
  });
  const n = target.ids?.length ?? count.data?.matched ?? 0;
  const error = act.error ?? count.error;
  return (
    <Confirm
      title={t(`bulk.${target.action}`)}
      isOpen
      onClose={onClose}
      onConfirm={() => act.mutate()}
      confirmLabel={t("bulk.confirm", { n })}
      tone={target.action === "cancel" ? "danger-solid" : "primary"}
      isPending={act.isPending}
      isDisabled={n === 0}
    >
      {target.ids === null && count.isPending ? (
        <Skeleton rows={1} />
      ) : (
        <p>{t(`bulk.${target.action}Explained`, { n })}</p>
      )}
      {count.data?.nextCursor && <p className="muted">{t("bulk.first", { limit: LIMIT })}</p>}
      {target.action === "cancel" && <TextField label={t("action.reason")} value={reason} onChange={setReason} />}
      {error && <Problem problem={toProblem(error)} isInline />}
    </Confirm>
  );
}

function bulk(body: Bulk, key: string): Promise<Gathered> {
  return call("POST /v1/runs/bulk", { body, headers: { "idempotency-key": key } });
}

const PARALLEL = 6;

/** Applies a control to chosen runs, a few at a time. */
async function each(action: BulkAction, ids: readonly string[], key: string, reason: string): Promise<Gathered> {
  const result: Gathered = { matched: ids.length, accepted: 0, ignored: 0, refused: 0, errors: [], nextCursor: null };
  const rest = [...ids];
  const work = async () => {
    for (let id = rest.pop(); id !== undefined; id = rest.pop()) {
      try {
        const body = action === "cancel" && reason !== "" ? { reason } : {};
        const headers = { "idempotency-key": `${key}-${id}` };
        const answer = await call(`POST /v1/runs/{id}/${action}`, { path: { id }, body, headers });
        if (answer.outcome === "accepted") result.accepted += 1;
        else result.ignored += 1;
      } catch {
        result.refused += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return result;
}
