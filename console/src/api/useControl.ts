// Sends an action of a person to a run.
//
// Every attempt of one request has the same idempotency key: after an unknown outcome the request is repeated, and the
// server applies it once. A request with another content has another key.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRequestKeys } from "../lib/requestKeys";
import type { Conditions } from "./conditions";
import { toProblem } from "./problem";
import { keys } from "./queries";

const REPEATS_MAX = 3;

interface ControlOptions<Request, Answer> {
  run: string;
  /** The version of the run that the person sees; null if the action does not depend on it. */
  version: number | null;
  send: (request: Request, conditions: Conditions) => Promise<Answer>;
  onDone: (answer: Answer, request: Request) => void;
}

export interface SentControl<Request> {
  /** Sends a request: everything that the person has chosen and written. */
  send: (request: Request) => void;
  isPending: boolean;
  /** Also while a request whose outcome is not known is repeated. */
  error: Error | null;
  /** The last request that was sent, and the version of the run on screen then. */
  request: Request | undefined;
  version: number | null;
}

export function useControl<Request, Answer>(options: ControlOptions<Request, Answer>): SentControl<Request> {
  const { run, version, send, onDone } = options;
  const client = useQueryClient();
  const requestKeys = useRequestKeys();
  const mutation = useMutation({
    mutationFn: (sent: { request: Request; version: number | null }) =>
      send(sent.request, { key: requestKeys.keyOf(sent.request), version: sent.version }),
    retry: (count, error) => toProblem(error).isUnknown && count < REPEATS_MAX,
    onSuccess: (answer, { request }) => {
      requestKeys.settle(request);
      void client.invalidateQueries({ queryKey: keys.run(run) });
      onDone(answer, request);
    },
    onError: (error, { request }) => {
      if (!toProblem(error).isUnknown) requestKeys.settle(request);
      // A conflict means that the run has changed: show how it is now.
      void client.invalidateQueries({ queryKey: keys.run(run) });
    },
  });
  return {
    send: (request) => mutation.mutate({ request, version }),
    isPending: mutation.isPending,
    error: mutation.error ?? (mutation.isPending ? mutation.failureReason : null),
    request: mutation.variables?.request,
    version: mutation.variables?.version ?? null,
  };
}
