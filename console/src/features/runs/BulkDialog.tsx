// Cancels, pauses, resumes or retries many runs, after it has counted them.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import type { Bulk, Gathered } from "../../api/types";
import { t, tWord } from "../../lib/i18n";
import { shortId } from "../../lib/id";
import { useRequestKeys } from "../../lib/requestKeys";
import type { ControlName } from "../../lib/status";
import { paths } from "../../lib/url";
import { Button, Confirm, Dialog, Link, Problem, Skeleton, showToast, TextField } from "../../ui";
import { type ChosenRun, type Eligible, eligible, sendEach } from "./bulkModel";
import { type Term, termsToBulk } from "./filterModel";

export interface BulkTarget {
  action: ControlName;
  /** Exactly these runs, or all that the filter selects. */
  runs: readonly ChosenRun[] | null;
}

interface BulkDialogProps {
  target: BulkTarget;
  terms: readonly Term[];
  onClose: () => void;
}

const LIMIT = 10_000;

export function BulkDialog({ target, terms, onClose }: BulkDialogProps) {
  const { action } = target;
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const requestKeys = useRequestKeys();
  const chosen = target.runs === null ? null : eligible(action, target.runs);
  const body = (isDry: boolean): Bulk => ({
    action,
    filter: termsToBulk(terms, Date.now()) as Bulk["filter"],
    all: terms.length === 0,
    dryRun: isDry,
    limit: LIMIT,
    ...reasonOf(action, reason),
  });
  const count = useQuery({
    queryKey: ["bulk", action, terms],
    queryFn: ({ signal }) => call("POST /v1/runs/bulk", { body: body(true), signal }),
    enabled: chosen === null,
    staleTime: 0,
    gcTime: 0,
  });
  const act = useMutation({
    mutationFn: () => {
      const key = requestKeys.keyOf(reason);
      if (chosen === null)
        return call("POST /v1/runs/bulk", { body: body(false), headers: { "idempotency-key": key } });
      return sendEach(chosen.ids, (id) => {
        const headers = { "idempotency-key": `${key}-${id}` };
        return call(`POST /v1/runs/{id}/${action}`, { path: { id }, body: reasonOf(action, reason), headers });
      });
    },
    onSuccess: (result) => {
      void client.invalidateQueries({ queryKey: ["runs"] });
      // Refusals stay on screen with their reasons.
      if (result.refused > 0) return;
      showToast(summary(result));
      onClose();
    },
  });
  if (act.data && act.data.refused > 0) return <Refusals action={action} result={act.data} onClose={onClose} />;
  const n = chosen?.ids.length ?? count.data?.matched ?? 0;
  const error = act.error ?? count.error;
  return (
    <Confirm
      title={t(`bulk.${action}`)}
      isOpen
      onClose={onClose}
      onConfirm={() => act.mutate()}
      confirmLabel={t("bulk.confirm", { n })}
      tone={action === "cancel" ? "danger-solid" : "primary"}
      isPending={act.isPending}
      isDisabled={n === 0}
    >
      {chosen === null && count.isPending ? <Skeleton rows={1} /> : <p>{t(`bulk.${action}Explained`, { n })}</p>}
      {chosen && <Others chosen={chosen} />}
      {count.data?.nextCursor && <p className="muted">{t("bulk.first", { limit: LIMIT })}</p>}
      {action === "cancel" && <TextField label={t("action.reason")} value={reason} onChange={setReason} />}
      {error && <Problem problem={toProblem(error)} isInline />}
    </Confirm>
  );
}

function reasonOf(action: ControlName, reason: string): { reason?: string } {
  return action === "cancel" && reason !== "" ? { reason } : {};
}

function summary({ accepted, ignored, refused }: Gathered): string {
  return t("bulk.done", { accepted, ignored, refused });
}

/** The chosen runs that stay as they are. */
function Others({ chosen }: { chosen: Eligible }) {
  if (chosen.others.length === 0) return null;
  const n = chosen.others.reduce((sum, [, count]) => sum + count, 0);
  const statuses = chosen.others.map(([status]) => tWord("status", status)).join(", ");
  return <p className="muted">{t("bulk.others", { n, statuses })}</p>;
}

function Refusals({ action, result, onClose }: { action: ControlName; result: Gathered; onClose: () => void }) {
  return (
    <Dialog
      title={t(`bulk.${action}`)}
      isOpen
      onClose={onClose}
      footer={
        <Button tone="primary" autoFocus onPress={onClose}>
          {t("ui.close")}
        </Button>
      }
    >
      <p role="alert">{summary(result)}</p>
      <ul className="bulk-refusals" aria-label={t("bulk.refusals")}>
        {result.errors.map(({ run, code, message }) => (
          <li key={run}>
            <Link href={paths.run(run)} title={run}>
              <span className="mono">{shortId(run)}</span>
            </Link>
            <span>
              <code>{code}</code> {message}
            </span>
          </li>
        ))}
      </ul>
      {result.refused > result.errors.length && (
        <p className="muted">{t("bulk.refusalsMore", { n: result.refused - result.errors.length })}</p>
      )}
    </Dialog>
  );
}
