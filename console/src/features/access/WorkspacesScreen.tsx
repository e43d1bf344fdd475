// Workspaces: create one, with its first key; the quotas of the caller's workspace.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { toProblem } from "../../api/problem";
import type { Workspace } from "../../api/types";
import { t } from "../../lib/i18n";
import { Button, type Column, Copyable, Switch, showToast, TextField, Time } from "../../ui";
import { CredentialDialog } from "./CredentialDialog";
import { ListScreen } from "./ListScreen";
import { Quotas } from "./Quotas";
import { useList } from "./useList";

export function WorkspacesScreen() {
  const client = useQueryClient();
  const list = useList(
    ["workspaces"],
    (cursor, signal) => call("GET /v1/workspaces", { query: { cursor, limit: 200 }, signal }),
    (page) => page.workspaces,
  );
  const [isCreating, setCreating] = useState(false);
  const renew = () => void client.invalidateQueries({ queryKey: ["workspaces"] });
  const change = useMutation({
    mutationFn: (workspace: Workspace) =>
      call("PATCH /v1/workspaces/{name}", {
        path: { name: workspace.name },
        body: { options: { fetch: !workspace.options.fetch } },
      }),
    onSuccess: renew,
    onError: (error) => showToast(toProblem(error).message, "bad"),
  });
  const columns: ReadonlyArray<Column<Workspace>> = [
    {
      id: "name",
      title: t("access.name"),
      width: "minmax(140px, 1fr)",
      cell: (one) => <b className="runs-name">{one.name}</b>,
    },
    { id: "id", title: t("runs.id"), width: "minmax(200px, 1fr)", cell: (one) => <Copyable text={one.id} isMono /> },
    {
      id: "fetch",
      title: t("workspaces.fetch"),
      width: "160px",
      cell: (one) => (
        <Switch isSelected={one.options.fetch} onChange={() => change.mutate(one)}>
          <span className="sr">{t("workspaces.fetch")}</span>
        </Switch>
      ),
    },
    { id: "created", title: t("access.created"), width: "120px", cell: (one) => <Time at={one.createdAt} /> },
  ];
  return (
    <ListScreen
      title={t("nav.workspaces")}
      icon="workspace"
      none={{ title: t("workspaces.none") }}
      list={list}
      columns={columns}
      filter={<Quotas />}
      rowId={(one) => one.name}
      actions={
        <Button tone="primary" icon="plus" onPress={() => setCreating(true)}>
          {t("workspaces.create")}
        </Button>
      }
    >
      {isCreating && <CreateWorkspace onClose={() => setCreating(false)} onMade={renew} />}
    </ListScreen>
  );
}

function CreateWorkspace({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [name, setName] = useState("");
  return (
    <CredentialDialog
      title={t("workspaces.create")}
      madeTitle={t("workspaces.made")}
      isReady={name.trim() !== ""}
      send={() => call("POST /v1/workspaces", { body: { name: name.trim() } })}
      onMade={onMade}
      onClose={onClose}
    >
      <TextField label={t("access.name")} value={name} onChange={setName} autoFocus />
    </CredentialDialog>
  );
}
