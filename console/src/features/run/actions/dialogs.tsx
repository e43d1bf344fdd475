// The dialogs of the actions on a run.

import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../../api/client";
import type { Forked, Open, Run } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { parseJson, pretty } from "../../../lib/json";
import { paths } from "../../../lib/url";
import { Button, ComboBox, Confirm, Dialog, Link, showToast, TextField } from "../../../ui";
import { ActionError } from "./ActionError";
import type { ApprovalWait } from "./Approval";
import { useControl } from "./useControl";

interface DialogProps {
  run: Run;
  onClose: () => void;
}

export type SimpleAction = "retry" | "pause" | "resume";

export function ControlDialog({ run, action, onClose }: DialogProps & { action: SimpleAction | "cancel" }) {
  const [reason, setReason] = useState("");
  const control = useControl({
    run: run.id,
    version: run.version,
    send: (headers) => {
      const body = action === "cancel" && reason.trim() !== "" ? { reason: reason.trim() } : {};
      return call(`POST /v1/runs/{id}/${action}`, { path: { id: run.id }, body, headers });
    },
    onDone: (answer) => {
      showToast(answer.outcome === "ignored" ? (answer.reason ?? t("action.ignored")) : t(`action.${action}Done`));
      onClose();
    },
  });
  return (
    <Confirm
      title={t(`action.${action}Title`)}
      isOpen
      onClose={onClose}
      confirmLabel={t(`action.${action}`)}
      tone={action === "cancel" ? "danger-solid" : "primary"}
      onConfirm={() => control.mutate()}
      isPending={control.isPending}
    >
      <p>{t(`action.${action}Text`)}</p>
      {action === "cancel" && <TextField label={t("action.reason")} value={reason} onChange={setReason} autoFocus />}
      {control.error && <ActionError error={control.error} />}
    </Confirm>
  );
}

/** The signals that the run waits for, with the fields that their payloads must have. */
export function waitsOf(run: Run): ApprovalWait[] {
  return run.open.filter((open) => open.kind === "wait" && open.event) as ApprovalWait[];
}

export function SignalDialog({ run, onClose, preset }: DialogProps & { preset?: Open }) {
  const waits = waitsOf(run);
  const first = preset ?? waits[0];
  const [event, setEvent] = useState(first?.event ?? "");
  const [text, setText] = useState(pretty(first?.match ?? {}));
  const parsed = parseJson(text);
  const control = useControl({
    run: run.id,
    version: null,
    send: (headers) =>
      call("POST /v1/runs/{id}/signals/{event}", {
        path: { id: run.id, event },
        body: (parsed.ok ? parsed.value : null) as never,
        headers,
      }),
    onDone: (answer) => {
      showToast(t("action.signalDone", { outcome: t(`outcome.${answer.outcome}`) }));
      onClose();
    },
  });
  const choose = (name: string) => {
    setEvent(name);
    const wait = waits.find((one) => one.event === name);
    if (wait?.match !== undefined) setText(pretty(wait.match));
  };
  return (
    <Confirm
      title={t("action.signalTitle")}
      isOpen
      width="medium"
      onClose={onClose}
      confirmLabel={t("action.send")}
      onConfirm={() => control.mutate()}
      isPending={control.isPending}
      isDisabled={event === "" || !parsed.ok}
    >
      <ComboBox
        label={t("action.signalName")}
        isCreatable
        options={waits.map((wait) => ({ id: wait.event ?? "", label: wait.event ?? "", hint: wait.step }))}
        value={event}
        onChange={choose}
      />
      <TextField
        label={t("action.payload")}
        isCode
        rows={8}
        value={text}
        onChange={setText}
        error={parsed.ok ? null : parsed.message}
      />
      {control.error && <ActionError error={control.error} />}
    </Confirm>
  );
}

export function StartAgainDialog({ run, onClose }: DialogProps) {
  const [, navigate] = useLocation();
  const [text, setText] = useState(pretty(run.input));
  const parsed = parseJson(text);
  const control = useControl({
    run: run.id,
    version: null,
    send: (headers) =>
      call("POST /v1/workflows/{name}/runs", {
        path: { name: run.workflow },
        body: {
          input: parsed.ok ? parsed.value : null,
          ...(run.tags ? { tags: run.tags as Record<string, string> } : {}),
        },
        headers,
      }),
    onDone: (answer) => {
      showToast(answer.warning ?? t("action.startAgainDone"));
      onClose();
      navigate(paths.run(answer.run.id));
    },
  });
  return (
    <Confirm
      title={t("action.startAgainTitle", { workflow: run.workflow })}
      isOpen
      width="medium"
      onClose={onClose}
      confirmLabel={t("action.startAgain")}
      onConfirm={() => control.mutate()}
      isPending={control.isPending}
      isDisabled={!parsed.ok}
    >
      <TextField
        label={t("action.input")}
        isCode
        rows={12}
        value={text}
        onChange={setText}
        error={parsed.ok ? null : parsed.message}
      />
      {control.error && <ActionError error={control.error} />}
    </Confirm>
  );
}

export function ForkDialog({ run, at, onClose }: DialogProps & { at: number | null }) {
  const [, navigate] = useLocation();
  const [made, setMade] = useState<Forked | null>(null);
  const control = useControl({
    run: run.id,
    version: null,
    send: (headers) =>
      call("POST /v1/runs/{id}/fork", { path: { id: run.id }, body: at === null ? {} : { at }, headers }),
    onDone: setMade,
  });
  if (made) {
    const { children, steps } = made.notUndone;
    return (
      <Dialog
        title={t("fork.made", { seq: String(made.forkedAt) })}
        isOpen
        onClose={onClose}
        footer={
          <>
            <Button onPress={onClose}>{t("fork.stay")}</Button>
            <Button tone="primary" autoFocus onPress={() => navigate(paths.run(made.run.id))}>
              {t("fork.open")}
            </Button>
          </>
        }
      >
        {children.length + steps.length === 0 ? (
          <p>{t("fork.nothingOutside")}</p>
        ) : (
          <>
            <p>{t("fork.notUndone")}</p>
            <ul className="fork-list">
              {steps.map((step) => (
                <li key={step} className="mono">
                  {step}
                </li>
              ))}
              {children.map((child) => (
                <li key={child.run}>
                  <span className="mono">{child.step}</span> → <Link href={paths.run(child.run)}>{child.run}</Link>
                </li>
              ))}
            </ul>
          </>
        )}
      </Dialog>
    );
  }
  return (
    <Confirm
      title={t("fork.title")}
      isOpen
      onClose={onClose}
      confirmLabel={t("action.fork")}
      onConfirm={() => control.mutate()}
      isPending={control.isPending}
    >
      <p>{at === null ? t("fork.textLast") : t("fork.textAt", { seq: String(at) })}</p>
      {control.error && <ActionError error={control.error} />}
    </Confirm>
  );
}
