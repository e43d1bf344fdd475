// A run of a state machine: its states with the present one, the actions of the caller, and its history.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Actions, AvailableAction, Run, Workflow } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { parseJson } from "../../../lib/json";
import { hasEnded } from "../../../lib/status";
import { Button, Countdown, Icon, Problem, Skeleton, showToast, TextField, Time } from "../../../ui";
import { ActionError } from "../actions/ActionError";
import { useControl } from "../actions/useControl";
import { readMachine } from "../model/machineModel";
import { MachineHistory } from "./MachineHistory";

export function MachineView({ run, workflow }: { run: Run; workflow: Workflow }) {
  const actions = useQuery({
    queryKey: ["actions", run.id, run.version],
    queryFn: ({ signal }) => call("GET /v1/runs/{id}/actions", { path: { id: run.id }, signal }),
    enabled: !hasEnded(run.status),
    placeholderData: (previous) => previous,
  });
  return (
    <div className="ui-scroll machine">
      <section>
        <h2>{t("machine.states")}</h2>
        <States run={run} workflow={workflow} />
      </section>
      <div className="machine-main">
        {!hasEnded(run.status) && (
          <section className="stack">
            <h2>{t("machine.actions")}</h2>
            {actions.error ? (
              <Problem problem={toProblem(actions.error)} isInline onRetry={() => void actions.refetch()} />
            ) : actions.data ? (
              <ActionForm run={run} actions={actions.data as Actions} titles={titlesOf(workflow)} />
            ) : (
              <Skeleton rows={3} />
            )}
          </section>
        )}
        <section>
          <h2>{t("machine.history")}</h2>
          <MachineHistory run={run} />
        </section>
      </div>
    </div>
  );
}

function States({ run, workflow }: { run: Run; workflow: Workflow }) {
  const { machine } = run;
  return (
    <ol className="machine-states">
      {readMachine(workflow.definition).map((state) => {
        const isPresent = state.name === machine?.state;
        return (
          <li
            key={state.name}
            className={isPresent ? `present is-${run.status}` : ""}
            aria-current={isPresent ? "step" : undefined}
            title={state.name}
          >
            <span className="row">
              <span className="grow cut">{state.title}</span>
              {state.isTerminal && <Icon name="stop" size={12} />}
            </span>
            {isPresent && machine && (
              <span className="machine-facts">
                <span>
                  {t("machine.since")} <Time at={machine.enteredAt} />
                </span>
                {machine.due && (
                  <span>
                    {t("machine.due")} <Countdown until={machine.due} />
                  </span>
                )}
                {machine.assigned.length > 0 && (
                  <span className="cut" title={machine.assigned.join(", ")}>
                    {t("machine.assigned", { people: machine.assigned.join(", ") })}
                  </span>
                )}
              </span>
            )}
          </li>
        );
      })}
    </ol>
  );
}

type Titles = ReadonlyMap<string, string>;

function titlesOf(workflow: Workflow): Titles {
  return new Map(readMachine(workflow.definition).map((state) => [state.name, state.title]));
}

function ActionForm({ run, actions, titles }: { run: Run; actions: Actions; titles: Titles }) {
  const [comment, setComment] = useState("");
  const [data, setData] = useState("");
  const parsed = data.trim() === "" ? null : parseJson(data);
  const needsData = actions.actions.some((action) => action.needs.data.length > 0);
  const control = useControl({
    run: run.id,
    version: null,
    send: (headers, action: AvailableAction) =>
      call("POST /v1/runs/{id}/transitions", {
        path: { id: run.id },
        // The server refuses the action if another one came first, or if the shown values have changed.
        body: {
          action: action.action,
          version: actions.versionNo,
          ...(comment.trim() === "" ? {} : { comment: comment.trim() }),
          ...(parsed?.ok ? { data: parsed.value as Record<string, unknown> } : {}),
          ...(action.needs.shown ? { shown: actions.shown.digest } : {}),
        },
        headers,
      }),
    onDone: (answer) => {
      setComment("");
      setData("");
      showToast(
        answer.applied
          ? t("machine.done", { state: titles.get(answer.nextState) ?? answer.nextState })
          : t("machine.voted"),
      );
    },
  });
  if (actions.actions.length === 0) return <p className="muted">{t("machine.noActions")}</p>;
  return (
    <>
      <TextField label={t("inbox.comment")} value={comment} onChange={setComment} />
      {needsData && (
        <TextField
          label={t("machine.data")}
          isCode
          rows={4}
          placeholder={placeholder(actions.actions)}
          value={data}
          onChange={setData}
          error={parsed === null || parsed.ok ? null : parsed.message}
        />
      )}
      <ul className="machine-actions">
        {actions.actions.map((action) => (
          <li key={action.action}>
            <Button
              reason={action.open ? null : (action.reasons[0]?.message ?? t("machine.closed"))}
              isDisabled={parsed !== null && !parsed.ok}
              isPending={control.isPending && control.variables?.action === action.action}
              onPress={() => control.mutate(action)}
            >
              {action.title ?? action.action}
            </Button>
            <span className="muted">
              {action.open ? (
                <Outlook action={action} titles={titles} />
              ) : (
                (action.reasons[0]?.message ?? t("machine.closed"))
              )}
            </span>
          </li>
        ))}
      </ul>
      {control.error && <ActionError error={control.error} />}
    </>
  );
}

/** Where an open action leads, and what it needs. */
function Outlook({ action, titles }: { action: AvailableAction; titles: Titles }) {
  const parts = [
    `→ ${action.to.map((name) => titles.get(name) ?? name).join(", ")}`,
    action.quorum && t("machine.votes", { count: String(action.quorum.count), need: String(action.quorum.need) }),
    action.needs.comment && t("machine.needsComment"),
    action.needs.data.length > 0 && t("machine.needsData", { paths: action.needs.data.join(", ") }),
  ];
  return <>{parts.filter(Boolean).join(" · ")}</>;
}

function placeholder(actions: readonly AvailableAction[]): string {
  const paths = actions.flatMap((action) => action.needs.data);
  return JSON.stringify(Object.fromEntries(paths.map((path) => [path, ""])));
}
