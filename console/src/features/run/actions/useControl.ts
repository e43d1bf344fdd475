// Sends an action of a person to a run.
//
// Every attempt of one action has the same idempotency key: after an unknown outcome the request is repeated, and the
// server applies it once.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { toProblem } from "../../../api/problem";
import { keys } from "../../../api/queries";
import { newIdempotencyKey } from "../../../lib/id";

const REPEATS = 3;

interface Control<Answer, Value> {
  run: string;
  /** The version of the run that the person sees; null if the action does not depend on it. */
  version: number | null;
  send: (headers: Record<string, string>, value: Value) => Promise<Answer>;
  onDone: (answer: Answer, value: Value) => void;
}

export function useControl<Answer, Value = void>({ run, version, send, onDone }: Control<Answer, Value>) {
  const client = useQueryClient();
  const key = useRef(newIdempotencyKey());
  return useMutation({
    mutationFn: (value: Value) => {
      const headers: Record<string, string> = { "idempotency-key": key.current };
      if (version !== null) headers["if-match"] = `"${version}"`;
      return send(headers, value);
    },
    retry: (count, error) => toProblem(error).isUnknown && count < REPEATS,
    onSuccess: (answer, value) => {
      key.current = newIdempotencyKey();
      void client.invalidateQueries({ queryKey: keys.run(run) });
      onDone(answer, value);
    },
    onError: (error) => {
      if (!toProblem(error).isUnknown) key.current = newIdempotencyKey();
      // A conflict means that the run has changed: show how it is now.
      void client.invalidateQueries({ queryKey: keys.run(run) });
    },
  });
}
