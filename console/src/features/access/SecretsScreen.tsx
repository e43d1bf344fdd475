// Secrets: set, delete. Their values are never shown.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { useCan } from "../../api/me";
import type { Secret } from "../../api/types";
import { commands } from "../../lib/commands";
import { t } from "../../lib/i18n";
import { Button, type Column, Copyable, showToast, TextField, Time } from "../../ui";
import { ListScreen } from "./ListScreen";
import { SendDialog } from "./SendDialog";
import { useList } from "./useList";

export function SecretsScreen() {
  const client = useQueryClient();
  const list = useList(
    ["secrets"],
    (cursor, signal) => call("GET /v1/secrets", { query: { cursor, limit: 200 }, signal }),
    (page) => page.secrets,
  );
  const [set, setSet] = useState<string | null>(null);
  // Publishers may read the names.
  const reason = useCan("workflow:admin") ? null : t("problem.forbidden", { permission: "workflow:admin" });
  const [removed, setRemoved] = useState<Secret | null>(null);
  const done = (text: string) => {
    showToast(text);
    setSet(null);
    setRemoved(null);
    void client.invalidateQueries({ queryKey: ["secrets"] });
  };
  const columns: ReadonlyArray<Column<Secret>> = [
    {
      id: "name",
      title: t("access.name"),
      width: "minmax(160px, 1fr)",
      cell: (secret) => <Copyable text={secret.name} isMono />,
    },
    { id: "created", title: t("access.created"), width: "120px", cell: (secret) => <Time at={secret.createdAt} /> },
    { id: "updated", title: t("access.updated"), width: "120px", cell: (secret) => <Time at={secret.updatedAt} /> },
    {
      id: "act",
      title: "",
      width: "170px",
      align: "end",
      cell: (secret) => (
        <span className="row access-acts">
          <Button size="small" reason={reason} onPress={() => setSet(secret.name)}>
            {t("secrets.replace")}
          </Button>
          <Button
            size="small"
            tone="danger"
            icon="trash"
            label={t("secrets.delete")}
            reason={reason}
            onPress={() => setRemoved(secret)}
          />
        </span>
      ),
    },
  ];
  return (
    <ListScreen
      title={t("nav.secrets")}
      icon="lock"
      none={{ title: t("secrets.none"), text: t("secrets.noneText"), command: commands.setSecret }}
      list={list}
      columns={columns}
      rowId={(secret) => secret.name}
      actions={
        <Button tone="primary" icon="plus" reason={reason} onPress={() => setSet("")}>
          {t("secrets.set")}
        </Button>
      }
    >
      {set !== null && <SetSecret name={set} onClose={() => setSet(null)} onDone={() => done(t("secrets.isSet"))} />}
      {removed && (
        <SendDialog
          title={t("secrets.deleteTitle", { name: removed.name })}
          submit={t("secrets.delete")}
          isDangerous
          send={() => call("DELETE /v1/secrets/{name}", { path: { name: removed.name } })}
          onDone={() => done(t("secrets.deleted"))}
          onClose={() => setRemoved(null)}
        >
          <p>{t("secrets.deleteText")}</p>
        </SendDialog>
      )}
    </ListScreen>
  );
}

function SetSecret({ name: known, onClose, onDone }: { name: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(known);
  const [value, setValue] = useState("");
  return (
    <SendDialog
      title={known === "" ? t("secrets.set") : t("secrets.replaceTitle", { name: known })}
      submit={t("secrets.set")}
      isReady={name.trim() !== "" && value !== ""}
      send={() => call("PUT /v1/secrets/{name}", { path: { name: name.trim() }, body: { value } })}
      onDone={onDone}
      onClose={onClose}
    >
      {known === "" && <TextField label={t("access.name")} value={name} onChange={setName} isCode autoFocus />}
      <TextField
        label={t("secrets.value")}
        type="password"
        value={value}
        onChange={setValue}
        isCode
        hint={t("secrets.valueHint")}
      />
    </SendDialog>
  );
}
