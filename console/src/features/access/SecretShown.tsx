// A credential that is shown once.

import { t } from "../../lib/i18n";
import { Button, CodeBlock, Dialog } from "../../ui";

export function SecretShown({ title, secret, onClose }: { title: string; secret: string; onClose: () => void }) {
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
