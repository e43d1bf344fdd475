// The sign-in screen: a credential that is pasted, or a one-time code of the address.

import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import { keepSession } from "../../api/session";
import { t, tParts } from "../../lib/i18n";
import { Button, CodeBlock, Problem, Skeleton, TextField } from "../../ui";
import "./signin.css";

async function signInWithCredential(credential: string): Promise<void> {
  await call("GET /v1/me", { headers: { authorization: `Bearer ${credential}` } });
  keepSession({ credential, ownKey: null });
}

async function signInWithCode(code: string): Promise<void> {
  const made = await call("POST /v1/sign-ins", { body: { code } });
  const headers = { authorization: `Bearer ${made.key}` };
  const me = await call("GET /v1/me", { headers });
  keepSession({ credential: made.key, ownKey: me.key?.id ?? null });
}

export function SignIn({ code, logo }: { code: string | null; logo: ReactNode }) {
  const [credential, setCredential] = useState("");
  const paste = useMutation({ mutationFn: signInWithCredential });
  const link = useMutation({ mutationFn: signInWithCode });
  const sent = useRef<string | null>(null);
  const { mutate } = link;
  useEffect(() => {
    document.title = `${t("signIn.title")} · Everstep`;
    // A code can be used once; effects run twice during development.
    if (code === null || sent.current === code) return;
    sent.current = code;
    mutate(code);
  }, [code, mutate]);
  const error = paste.error ?? link.error;
  return (
    <main className="signin">
      <div className="signin-card">
        {logo}
        <h1>{t("signIn.title")}</h1>
        {link.isPending ? (
          <Skeleton rows={3} />
        ) : (
          <form
            className="stack"
            onSubmit={(event) => {
              event.preventDefault();
              if (credential.trim() !== "") paste.mutate(credential.trim());
            }}
          >
            <TextField
              label={t("signIn.credential")}
              type="password"
              isCode
              autoFocus
              placeholder="es_…"
              value={credential}
              onChange={setCredential}
              hint={t("signIn.kept")}
            />
            <Button type="submit" tone="primary" isPending={paste.isPending} isDisabled={credential.trim() === ""}>
              {t("signIn.submit")}
            </Button>
          </form>
        )}
        {error && <Problem problem={toProblem(error)} isInline />}
        <div className="signin-link">
          <p className="muted">{tParts("signIn.link", { b: (text) => <b>{text}</b> })}</p>
          <CodeBlock text="everstep open" />
        </div>
      </div>
    </main>
  );
}
