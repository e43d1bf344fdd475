// Approves or rejects what a run waits for.

import { useState } from "react";
import { useCan } from "../../../api/me";
import { decisionNotice, sendApproval } from "../../../api/signals";
import type { Open, Run } from "../../../api/types";
import { useControl } from "../../../api/useControl";
import { t } from "../../../lib/i18n";
import { Button, showToast, TextField } from "../../../ui";
import { ActionError } from "./ActionError";

/** Another wait has another form: its comment and its keys are not those of the one before. */
export const waitKey = (wait: Open) => `${wait.step} ${wait.attempt} ${wait.since ?? ""}`;

export function Approval({ run, wait }: { run: Run; wait: Open }) {
  const [comment, setComment] = useState("");
  const mayAnswer = useCan("workflow:manage");
  const control = useControl({
    run: run.id,
    version: run.version,
    send: (request: { isApproved: boolean; comment: string }, conditions) => {
      const { event, match, step, since } = wait;
      const approval = { run: run.id, signal: event ?? "", match, wait: { step, since }, ...request };
      return sendApproval(approval, conditions);
    },
    onDone: (decided, { isApproved }) => {
      const { text, tone } = decisionNotice(decided, isApproved);
      showToast(text, tone);
    },
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
        onPress={() => control.send({ isApproved: true, comment })}
      >
        {t("inbox.approve")}
      </Button>
      <Button
        tone="danger"
        icon="close"
        reason={reason}
        isPending={control.isPending}
        onPress={() => control.send({ isApproved: false, comment })}
      >
        {t("inbox.reject")}
      </Button>
      {control.error && <ActionError error={control.error} version={control.version} />}
    </div>
  );
}
