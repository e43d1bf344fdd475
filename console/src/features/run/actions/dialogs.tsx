// The dialogs of the actions on a run.

import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../../api/client";
import { conditionHeaders, sendAtVersion } from "../../../api/conditions";
import { ignoredReason, sendSignal } from "../../../api/signals";
import type { Forked, Open, Run } from "../../../api/types";
import { useControl } from "../../../api/useControl";
import { t } from "../../../lib/i18n";
import { parseJson, pretty } from "../../../lib/json";
import { type ControlName, canControl } from "../../../lib/status";
import { paths } from "../../../lib/url";
import { Button, ComboBox, Confirm, Dialog, Link, showToast, TextField } from "../../../ui";
import { ActionError } from "./ActionError";

interface DialogProps {
  run: Run;
  onClose: () => void;
}

/** A run in progress is paused and cancelled as it is, whatever its steps have added since. */
function staysPossible(action: ControlName, seen: Run, now: Run): boolean {
  const isInProgress = ({ status }: Run) => canControl("pause", status);
  return (action === "pause" || action === "cancel") && isInProgress(seen) && isInProgress(now);
}

export function ControlDialog({ run, action, onClose }: DialogProps & { action: ControlName }) {
  const [reason, setReason] = useState("");
  const control = useControl({
    run: run.id,
    version: run.version,
    send: (body: { reason?: string }, conditions) => {
      const send = (headers: Record<string, string>) =>
        call(`POST /v1/runs/{id}/${action}`, { path: { id: run.id }, body, headers });
      return sendAtVersion(run.id, conditions, send, (now) => staysPossible(action, run, now));
    },
    onDone: (answer) => {
      const ignored = ignoredReason(answer);
      if (ignored !== null) showToast(ignored, "bad");
      else showToast(t(`action.${action}Done`));
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
      onConfirm={() => control.send(action === "cancel" && reason.trim() !== "" ? { reason: reason.trim() } : {})}
      isPending={control.isPending}
    >
      <p>{t(`action.${action}Text`)}</p>
      {action === "cancel" && <TextField label={t("action.reason")} value={reason} onChange={setReason} autoFocus />}
      {control.error && <ActionError error={control.error} version={control.version} />}
    </Confirm>
  );
}

/** The signals that the run waits for, with the fields that their payloads must have. */
export function waitsOf(run: Run): Open[] {
  return run.open.filter((open) => open.kind === "wait" && open.event);
}

export function SignalDialog({ run, onClose }: DialogProps) {
  const waits = waitsOf(run);
  const first = waits[0];
  const [event, setEvent] = useState(first?.event ?? "");
  const [text, setText] = useState(pretty(first?.match ?? {}));
  const parsed = parseJson(text);
  const control = useControl({
    run: run.id,
    version: run.version,
    send: (request: { event: string; payload: unknown }, conditions) => {
      const wait = waits.find((one) => one.event === request.event) ?? null;
      return sendSignal({ run: run.id, wait, ...request }, conditions);
    },
    onDone: (answer) => {
      const ignored = ignoredReason(answer);
      if (ignored !== null) showToast(ignored, "bad");
      else showToast(t("action.signalDone", { outcome: t(`outcome.${answer.outcome}`) }));
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
      onConfirm={() => control.send({ event, payload: parsed.ok ? parsed.value : null })}
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
      {control.error && <ActionError error={control.error} version={control.version} />}
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
    send: (input: unknown, conditions) =>
      call("POST /v1/workflows/{name}/runs", {
        path: { name: run.workflow },
        body: { input, ...(run.tags ? { tags: run.tags as Record<string, string> } : {}) },
        headers: conditionHeaders(conditions),
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
      onConfirm={() => control.send(parsed.ok ? parsed.value : null)}
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
      {control.error && <ActionError error={control.error} version={control.version} />}
    </Confirm>
  );
}

export function ForkDialog({ run, at, onClose }: DialogProps & { at: number | null }) {
  const [, navigate] = useLocation();
  const [made, setMade] = useState<Forked | null>(null);
  const control = useControl({
    run: run.id,
    version: null,
    send: (body: { at?: number }, conditions) =>
      call("POST /v1/runs/{id}/fork", { path: { id: run.id }, body, headers: conditionHeaders(conditions) }),
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
      onConfirm={() => control.send(at === null ? {} : { at })}
      isPending={control.isPending}
    >
      <p>{at === null ? t("fork.textLast") : t("fork.textAt", { seq: String(at) })}</p>
      {control.error && <ActionError error={control.error} version={control.version} />}
    </Confirm>
  );
}
