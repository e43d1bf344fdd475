// A run of a state machine: its states with the present one, the actions of the caller, and its history. At an entry of
// the past, the state and the history are those of that entry, and nothing can be done.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { call } from "../../../api/client";
import { conditionHeaders } from "../../../api/conditions";
import { toProblem } from "../../../api/problem";
import type { Actions, AvailableAction, Run, TransitionRequest, Workflow } from "../../../api/types";
import { useControl } from "../../../api/useControl";
import { t } from "../../../lib/i18n";
import { parseJson } from "../../../lib/json";
import { hasEnded, type RunStatus } from "../../../lib/status";
import { Button, Countdown, Icon, Problem, Skeleton, showToast, TextField, Time } from "../../../ui";
import { ActionError } from "../actions/ActionError";
import { statusOf } from "../model/fold";
import { readMachine } from "../model/machineModel";
import { useRunPart } from "../runContext";
import { MachineHistory } from "./MachineHistory";

export function MachineView({ run, workflow }: { run: Run; workflow: Workflow }) {
  const until = useRunPart((view) => view.at);
  return (
    <div className="ui-scroll machine">
      <section>
        <h2>{t("machine.states")}</h2>
        {until === null ? <PresentStates run={run} workflow={workflow} /> : <PastStates workflow={workflow} />}
      </section>
      <div className="machine-main">
        {until === null && !hasEnded(run.status) && <ActionSection run={run} workflow={workflow} />}
        <section>
          <h2>{t("machine.history")}</h2>
          <MachineHistory run={run} until={until} />
        </section>
      </div>
    </div>
  );
}

function ActionSection({ run, workflow }: { run: Run; workflow: Workflow }) {
  const actions = useQuery({
    queryKey: ["actions", run.id, run.version],
    queryFn: ({ signal }) => call("GET /v1/runs/{id}/actions", { path: { id: run.id }, signal }),
    placeholderData: (previous) => previous,
  });
  return (
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
  );
}

function PresentStates({ run, workflow }: { run: Run; workflow: Workflow }) {
  const { machine, status } = run;
  if (machine === null) return <States workflow={workflow} present={null} />;
  const { state, enteredAt, due, assigned } = machine;
  return (
    <States workflow={workflow} present={state} status={status}>
      <span>
        {t("machine.since")} <Time at={enteredAt} />
      </span>
      {due && (
        <span>
          {t("machine.due")} <Countdown until={due} />
        </span>
      )}
      {assigned.length > 0 && (
        <span className="cut" title={assigned.join(", ")}>
          {t("machine.assigned", { people: assigned.join(", ") })}
        </span>
      )}
    </States>
  );
}

/** The states as they were at the entry on screen. */
function PastStates({ workflow }: { workflow: Workflow }) {
  const place = useRunPart((view) => view.fold.run.place);
  const status = useRunPart((view) => statusOf(view.fold));
  if (place === null) return <States workflow={workflow} present={null} />;
  return (
    <States workflow={workflow} present={place.state} status={status}>
      <span>
        {t("machine.since")} <Time at={new Date(place.enteredAt).toISOString()} />
      </span>
    </States>
  );
}

interface StatesProps {
  workflow: Workflow;
  /** The name of the state that the run is in, and the status of the run there. */
  present: string | null;
  status?: RunStatus;
  /** What is known about that state. */
  children?: ReactNode;
}

function States({ workflow, present, status, children }: StatesProps) {
  return (
    <ol className="machine-states">
      {readMachine(workflow.definition).map((state) => {
        const isPresent = state.name === present;
        return (
          <li
            key={state.name}
            className={isPresent ? `present is-${status}` : ""}
            aria-current={isPresent ? "step" : undefined}
            title={state.name}
          >
            <span className="row">
              <span className="grow cut">{state.title}</span>
              {state.isTerminal && <Icon name="stop" size={12} />}
            </span>
            {isPresent && <span className="machine-facts">{children}</span>}
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
    // The body has the version of the machine, which entries of deliveries do not change.
    version: null,
    send: (body: TransitionRequest, conditions) =>
      call("POST /v1/runs/{id}/transitions", { path: { id: run.id }, body, headers: conditionHeaders(conditions) }),
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
  // The server refuses the action if another one came first, or if the shown values have changed.
  const perform = (action: AvailableAction) =>
    control.send({
      action: action.action,
      version: actions.versionNo,
      ...(comment.trim() === "" ? {} : { comment: comment.trim() }),
      ...(parsed?.ok ? { data: parsed.value as Record<string, unknown> } : {}),
      ...(action.needs.shown ? { shown: actions.shown.digest } : {}),
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
              isPending={control.isPending && control.request?.action === action.action}
              onPress={() => perform(action)}
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
      {control.error && <ActionError error={control.error} version={null} />}
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
