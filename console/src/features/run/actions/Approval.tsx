// Approves or rejects what a run waits for.

import { useState } from "react";
import { call } from "../../../api/client";
import { useCan } from "../../../api/me";
import type { Open, Run } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { isObject } from "../../../lib/json";
import { Button, showToast, TextField } from "../../../ui";
import { ActionError } from "./ActionError";
import { useControl } from "./useControl";

/** A wait for an approval. Servers that say so mark it. */
export type ApprovalWait = Open & { approval?: boolean; about?: unknown };

export function Approval({ run, wait }: { run: Run; wait: ApprovalWait }) {
  const [comment, setComment] = useState("");
  const mayAnswer = useCan("workflow:manage");
  const control = useControl({
    run: run.id,
    version: null,
    send: (headers, isApproved: boolean) => {
      const match = isObject(wait.match) ? wait.match : {};
      const body = { ...match, approved: isApproved, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) };
      return call("POST /v1/runs/{id}/signals/{event}", {
        path: { id: run.id, event: wait.event ?? "" },
        body: body as never,
        headers,
      });
    },
    onDone: (_, isApproved) => showToast(isApproved ? t("inbox.approved") : t("inbox.rejected")),
  });
  const reason = mayAnswer ? null : t("problem.forbidden", { permission: "workflow:manage" });
  return (
    <div className="approval">
      <TextField
        label={t("inbox.comment")}
        isLabelHidden
        placeholder={t("inbox.comment")}
        value={comment}
        onChange={setComment}
      />
      <Button
        tone="primary"
        icon="check"
        reason={reason}
        isPending={control.isPending}
        onPress={() => control.mutate(true)}
      >
        {t("inbox.approve")}
      </Button>
      <Button
        tone="danger"
        icon="close"
        reason={reason}
        isPending={control.isPending}
        onPress={() => control.mutate(false)}
      >
        {t("inbox.reject")}
      </Button>
      {control.error && <ActionError error={control.error} />}
    </div>
  );
}
