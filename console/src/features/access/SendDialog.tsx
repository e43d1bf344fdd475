// A dialog that sends one request: to create, set, save, revoke or delete something.

import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useRef } from "react";
import { toProblem } from "../../api/problem";
import { newIdempotencyKey } from "../../lib/id";
import { Confirm, Problem } from "../../ui";

interface SendDialogProps<Answer> {
  title: string;
  /** The name of the button that sends the request. */
  submit: string;
  /** Sends the request. The key stays the same when a request is repeated after an error. */
  send: (idempotencyKey: string) => Promise<Answer>;
  onDone: (answer: Answer) => void;
  onClose: () => void;
  isReady?: boolean;
  /** Why the request is not possible. */
  reason?: string | null;
  isDangerous?: boolean;
  width?: "small" | "medium" | "wide";
  children: ReactNode;
}

export function SendDialog<Answer>(props: SendDialogProps<Answer>) {
  const key = useRef(newIdempotencyKey());
  const request = useMutation({ mutationFn: () => props.send(key.current), onSuccess: props.onDone });
  return (
    <Confirm
      title={props.title}
      isOpen
      width={props.width}
      onClose={props.onClose}
      confirmLabel={props.submit}
      tone={props.isDangerous ? "danger-solid" : "primary"}
      onConfirm={() => request.mutate()}
      isPending={request.isPending}
      isDisabled={props.isReady === false}
      reason={props.reason}
    >
      {props.children}
      {request.error && <Problem problem={toProblem(request.error)} isInline />}
    </Confirm>
  );
}
