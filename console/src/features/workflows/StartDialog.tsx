// Starts a run of a workflow.

import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import type { Workflow } from "../../api/types";
import { t } from "../../lib/i18n";
import { isObject, parseJson, pretty } from "../../lib/json";
import { useRequestKeys } from "../../lib/requestKeys";
import { paths } from "../../lib/url";
import { Confirm, Problem, showToast, TextField } from "../../ui";

/** An input with a place for every property that the schema requires. */
export function exampleInput(schema: unknown): unknown {
  if (!isObject(schema)) return {};
  if ("default" in schema) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  switch (schema.type) {
    case "integer":
    case "number":
      return typeof schema.minimum === "number" ? schema.minimum : 0;
    case "boolean":
      return false;
    case "array":
      return [];
    case "string":
      return "";
    default: {
      const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
      return Object.fromEntries(properties.map(([name, inner]) => [name, exampleInput(inner)]));
    }
  }
}

export function StartDialog({ workflow, onClose }: { workflow: Workflow; onClose: () => void }) {
  const [, navigate] = useLocation();
  const [text, setText] = useState(() => pretty(exampleInput(workflow.inputSchema)));
  const [key, setKey] = useState("");
  const requestKeys = useRequestKeys();
  const parsed = parseJson(text);
  const start = useMutation({
    mutationFn: () =>
      call("POST /v1/workflows/{name}/runs", {
        path: { name: workflow.name },
        body: { input: parsed.ok ? parsed.value : null, version: workflow.version },
        headers: { "idempotency-key": key.trim() === "" ? requestKeys.keyOf(text) : key.trim() },
      }),
    retry: (count, error) => toProblem(error).isUnknown && count < 3,
    onSuccess: (answer) => {
      showToast(answer.created ? t("start.done") : t("start.known"));
      onClose();
      navigate(paths.run(answer.run.id));
    },
  });
  return (
    <Confirm
      title={t("start.title", { workflow: workflow.name })}
      isOpen
      width="medium"
      onClose={onClose}
      confirmLabel={t("start.submit")}
      onConfirm={() => start.mutate()}
      isPending={start.isPending}
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
      <TextField label={t("start.key")} value={key} onChange={setKey} hint={t("start.keyHint")} />
      {start.error && <Problem problem={toProblem(start.error)} isInline />}
    </Confirm>
  );
}
