// API keys: create, revoke.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "../../api/client";
import { isServerAdmin, useMe } from "../../api/me";
import type { Key, Permission, Role } from "../../api/types";
import { t, tWord } from "../../lib/i18n";
import { DAY } from "../../lib/time";
import {
  Button,
  Checkbox,
  type Column,
  NumberField,
  Segmented,
  Select,
  showToast,
  Tag,
  TextField,
  Time,
} from "../../ui";
import { CredentialDialog } from "./CredentialDialog";
import { ListScreen } from "./ListScreen";
import { Quotas } from "./Quotas";
import { SendDialog } from "./SendDialog";
import { useList } from "./useList";

const ROLES: readonly Role[] = ["viewer", "operator", "publisher", "admin", "worker"];
const PERMISSIONS: readonly Permission[] = [
  "workflow:read",
  "workflow:view",
  "workflow:act",
  "workflow:manage",
  "workflow:publish",
  "workflow:admin",
  "worker:serve",
];

export function KeysScreen() {
  const client = useQueryClient();
  const me = useMe().data;
  const list = useList(
    ["keys"],
    (cursor, signal) => call("GET /v1/keys", { query: { cursor, limit: 200 }, signal }),
    (page) => page.keys,
  );
  const [isCreating, setCreating] = useState(false);
  const renew = () => void client.invalidateQueries({ queryKey: ["keys"] });
  const [revoked, setRevoked] = useState<Key | null>(null);
  const columns: ReadonlyArray<Column<Key>> = [
    {
      id: "name",
      title: t("access.name"),
      width: "minmax(160px, 1.4fr)",
      cell: (key) => (
        <b className="runs-name" title={key.name}>
          {key.name}
        </b>
      ),
    },
    {
      id: "role",
      title: t("keys.role"),
      width: "minmax(120px, 1.4fr)",
      cell: (key) =>
        key.role ? (
          <Tag>{tWord("role", key.role)}</Tag>
        ) : (
          <span className="muted" title={key.permissions.join(", ")}>
            {key.permissions.join(", ")}
          </span>
        ),
    },
    { id: "created", title: t("access.created"), width: "104px", cell: (key) => <Time at={key.createdAt} /> },
    {
      id: "expires",
      title: t("keys.expires"),
      width: "104px",
      cell: (key) => (key.expiresAt ? <Time at={key.expiresAt} /> : <span className="faint">{t("keys.never")}</span>),
    },
    {
      id: "state",
      title: "",
      width: "96px",
      align: "end",
      cell: (key) =>
        key.revokedAt ? (
          <span className="faint">{t("keys.isRevoked")}</span>
        ) : (
          <Button size="small" tone="danger" onPress={() => setRevoked(key)}>
            {t("keys.revoke")}
          </Button>
        ),
    },
  ];
  return (
    <ListScreen
      title={t("nav.keys")}
      icon="key"
      none={{ title: t("keys.none") }}
      list={list}
      columns={columns}
      // The page of the workspaces, which shows them too, is only for the admins of the server.
      filter={me !== undefined && !isServerAdmin(me) && <Quotas />}
      rowId={(key) => key.id}
      rowLabel={(key) => key.name}
      actions={
        <Button tone="primary" icon="plus" onPress={() => setCreating(true)}>
          {t("keys.create")}
        </Button>
      }
    >
      {isCreating && <CreateKey onClose={() => setCreating(false)} onMade={renew} />}
      {revoked && (
        <SendDialog
          title={t("keys.revokeTitle", { name: revoked.name })}
          submit={t("keys.revoke")}
          isDangerous
          send={() => call("DELETE /v1/keys/{id}", { path: { id: revoked.id } })}
          onDone={() => {
            showToast(t("keys.revoked"));
            setRevoked(null);
            renew();
          }}
          onClose={() => setRevoked(null)}
        >
          <p>{t("keys.revokeText")}</p>
        </SendDialog>
      )}
    </ListScreen>
  );
}

function CreateKey({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [name, setName] = useState("");
  const [how, setHow] = useState<"role" | "permissions">("role");
  const [role, setRole] = useState<Role>("viewer");
  const [permissions, setPermissions] = useState<ReadonlySet<Permission>>(new Set());
  const [days, setDays] = useState<number | null>(90);
  const create = (key: string) => {
    const expiresAt = days === null ? null : new Date(Date.now() + days * DAY).toISOString();
    const common = { name: name.trim(), ...(expiresAt ? { expiresAt } : {}) };
    const body = how === "role" ? { ...common, role } : { ...common, permissions: [...permissions] };
    return call("POST /v1/keys", { body, headers: { "idempotency-key": key } });
  };
  return (
    <CredentialDialog
      title={t("keys.create")}
      madeTitle={t("keys.made")}
      isReady={name.trim() !== "" && (how === "role" || permissions.size > 0)}
      send={create}
      onMade={onMade}
      onClose={onClose}
    >
      <TextField label={t("access.name")} value={name} onChange={setName} autoFocus hint={t("keys.nameHint")} />
      <Segmented
        label={t("keys.allows")}
        options={[
          { id: "role", label: t("keys.byRole") },
          { id: "permissions", label: t("keys.byPermission") },
        ]}
        value={how}
        onChange={setHow}
      />
      {how === "role" ? (
        <Select
          label={t("keys.role")}
          options={ROLES.map((id) => ({ id, label: tWord("role", id), hint: tWord("roleText", id) }))}
          value={role}
          onChange={(next) => setRole(next as Role)}
        />
      ) : (
        <div className="stack">
          {PERMISSIONS.map((permission) => (
            <Checkbox
              key={permission}
              isSelected={permissions.has(permission)}
              onChange={(isOn) => {
                const next = new Set(permissions);
                if (isOn) next.add(permission);
                else next.delete(permission);
                setPermissions(next);
              }}
            >
              <code>{permission}</code>
            </Checkbox>
          ))}
        </div>
      )}
      <NumberField
        label={t("keys.days")}
        value={days}
        onChange={setDays}
        min={1}
        max={3_650}
        hint={t("keys.daysHint")}
      />
    </CredentialDialog>
  );
}
