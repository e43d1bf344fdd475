// A run of a state machine: its states with the present one, and the actions of the caller.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../../api/client";
import { toProblem } from "../../../api/problem";
import type { Run, Workflow } from "../../../api/types";
import { t } from "../../../lib/i18n";
import { isObject } from "../../../lib/json";
import { Button, Problem, Skeleton, showToast, TextField } from "../../../ui";
import { ActionError } from "../actions/ActionError";
import { useControl } from "../actions/useControl";

export function MachineView({ run, workflow }: { run: Run; workflow: Workflow }) {
  const [comment, setComment] = useState("");
  const states = stateNames(workflow.definition);
  const present = run.machine?.state ?? null;
  const actions = useQuery({
    queryKey: ["actions", run.id, run.version],
    queryFn: ({ signal }) => call("GET /v1/runs/{id}/actions", { path: { id: run.id }, signal }),
  });
  const control = useControl({
    run: run.id,
    version: run.version,
    send: (headers, action: string) =>
      call("POST /v1/runs/{id}/transitions", {
        path: { id: run.id },
        body: { action, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) },
        headers,
      }),
    onDone: () => {
      setComment("");
      showToast(t("machine.done"));
    },
  });
  return (
    <div className="ui-scroll machine">
      <section>
        <h2>{t("machine.states")}</h2>
        <ol className="machine-states">
          {states.map((name) => (
            <li
              key={name}
              className={name === present ? "present" : ""}
              aria-current={name === present ? "step" : undefined}
            >
              {name}
            </li>
          ))}
        </ol>
      </section>
      <section className="stack">
        <h2>{t("machine.actions")}</h2>
        {actions.error ? (
          <Problem problem={toProblem(actions.error)} isInline onRetry={() => void actions.refetch()} />
        ) : !actions.data ? (
          <Skeleton rows={3} />
        ) : (
          <>
            <TextField label={t("inbox.comment")} value={comment} onChange={setComment} />
            <div className="row wrap">
              {actions.data.actions.map((action) => (
                <Button
                  key={action.action}
                  reason={action.open ? null : (action.reasons[0]?.message ?? t("machine.closed"))}
                  isPending={control.isPending}
                  onPress={() => control.mutate(action.action)}
                >
                  {action.title ?? action.action}
                </Button>
              ))}
            </div>
            {control.error && <ActionError error={control.error} />}
          </>
        )}
      </section>
    </div>
  );
}

/** The states of a definition: an object by name, or a list with ids. */
export function stateNames(definition: unknown): string[] {
  const states = isObject(definition) ? definition.states : null;
  if (Array.isArray(states))
    return states.map((state) => (isObject(state) ? String(state.id ?? state.name ?? "") : String(state)));
  return isObject(states) ? Object.keys(states) : [];
}
