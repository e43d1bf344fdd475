// A dialog that creates something with a credential, and then shows the credential once.

import { type ReactNode, useState } from "react";
import { t } from "../../lib/i18n";
import { Button, CodeBlock, Dialog } from "../../ui";
import { SendDialog } from "./SendDialog";

interface CredentialDialogProps {
  title: string;
  /** The title when the credential is shown. */
  madeTitle: string;
  isReady: boolean;
  /** Sends the request. The key stays the same when a request is repeated after an error. */
  send: (idempotencyKey: string) => Promise<{ secret?: string | null }>;
  onMade: () => void;
  onClose: () => void;
  children: ReactNode;
}

export function CredentialDialog(props: CredentialDialogProps) {
  const { title, madeTitle, isReady, send, onMade, onClose, children } = props;
  const [secret, setSecret] = useState<string | null>(null);
  if (secret !== null) return <SecretShown title={madeTitle} secret={secret} onClose={onClose} />;
  return (
    <SendDialog
      title={title}
      submit={title}
      isReady={isReady}
      send={send}
      onDone={(made) => {
        setSecret(made.secret ?? "");
        onMade();
      }}
      onClose={onClose}
    >
      {children}
    </SendDialog>
  );
}

function SecretShown({ title, secret, onClose }: { title: string; secret: string; onClose: () => void }) {
  return (
    <Dialog
      title={title}
      isOpen
      isAlert
      onClose={onClose}
      footer={
        <Button tone="primary" onPress={onClose}>
          {t("access.stored")}
        </Button>
      }
    >
      <p>{t("access.shownOnce")}</p>
      <CodeBlock text={secret} />
    </Dialog>
  );
}
