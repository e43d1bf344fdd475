// Named JSON documents with a trial: data sources and saved queries.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useCan } from "../../api/me";
import { toProblem } from "../../api/problem";
import { t } from "../../lib/i18n";
import { isObject, parseJson, pretty } from "../../lib/json";
import {
  Button,
  type Column,
  Dialog,
  type IconName,
  JsonTree,
  Problem,
  showToast,
  Tag,
  TextField,
  Time,
} from "../../ui";
import { ListScreen } from "./ListScreen";
import { SendDialog } from "./SendDialog";
import { useList } from "./useList";

export interface NamedDocument {
  name: string;
  document: Record<string, unknown>;
  updatedAt: string;
}

export interface DocumentKind {
  cacheKey: string;
  title: string;
  icon: IconName;
  none: { title: string; text: string };
  create: string;
  template: unknown;
  kindOf: (document: Record<string, unknown>) => string;
  /** A trial of a stored document. `args` is what the person wrote. */
  trial: { label: string; args: unknown | null; run: (name: string, args: unknown) => Promise<unknown> };
  read: (
    cursor: string | undefined,
    signal: AbortSignal,
  ) => Promise<{ rows: NamedDocument[]; nextCursor: string | null }>;
  save: (name: string, document: unknown) => Promise<unknown>;
  remove: (name: string) => Promise<unknown>;
}

type Open = { what: "edit" | "try" | "delete"; row: NamedDocument | null };

export function DocumentScreen({ kind }: { kind: DocumentKind }) {
  const client = useQueryClient();
  const list = useList([kind.cacheKey], kind.read, (page) => page.rows);
  const [open, setOpen] = useState<Open | null>(null);
  // Every caller that reads definitions may see the list.
  const saveReason = useCan("workflow:publish") ? null : t("problem.forbidden", { permission: "workflow:publish" });
  const trialReason = useCan("workflow:manage") ? null : t("problem.forbidden", { permission: "workflow:manage" });
  const done = (text: string) => {
    showToast(text);
    setOpen(null);
    void client.invalidateQueries({ queryKey: [kind.cacheKey] });
  };
  const columns: ReadonlyArray<Column<NamedDocument>> = [
    {
      id: "name",
      title: t("access.name"),
      width: "minmax(160px, 1fr)",
      cell: (row) => <b className="runs-name">{row.name}</b>,
    },
    {
      id: "kind",
      title: t("access.kind"),
      width: "minmax(120px, 1fr)",
      cell: (row) => <Tag>{kind.kindOf(row.document)}</Tag>,
    },
    { id: "updated", title: t("access.updated"), width: "120px", cell: (row) => <Time at={row.updatedAt} /> },
    {
      id: "act",
      title: "",
      width: "170px",
      align: "end",
      cell: (row) => (
        <span className="row access-acts">
          <Button size="small" icon="play" reason={trialReason} onPress={() => setOpen({ what: "try", row })}>
            {kind.trial.label}
          </Button>
          <Button
            size="small"
            tone="danger"
            icon="trash"
            label={t("access.delete")}
            reason={saveReason}
            onPress={() => setOpen({ what: "delete", row })}
          />
        </span>
      ),
    },
  ];
  return (
    <ListScreen
      title={kind.title}
      icon={kind.icon}
      none={kind.none}
      list={list}
      columns={columns}
      rowId={(row) => row.name}
      onOpen={(row) => setOpen({ what: "edit", row })}
      actions={
        <Button tone="primary" icon="plus" reason={saveReason} onPress={() => setOpen({ what: "edit", row: null })}>
          {kind.create}
        </Button>
      }
    >
      {open?.what === "edit" && (
        <Edit
          kind={kind}
          row={open.row}
          reason={saveReason}
          onClose={() => setOpen(null)}
          onDone={() => done(t("access.saved"))}
        />
      )}
      {open?.what === "try" && open.row && <Trial kind={kind} name={open.row.name} onClose={() => setOpen(null)} />}
      {open?.what === "delete" && open.row && (
        <Remove
          kind={kind}
          name={open.row.name}
          onClose={() => setOpen(null)}
          onDone={() => done(t("access.deleted"))}
        />
      )}
    </ListScreen>
  );
}

interface RemoveProps {
  kind: DocumentKind;
  name: string;
  onClose: () => void;
  onDone: () => void;
}

function Remove({ kind, name, onClose, onDone }: RemoveProps) {
  return (
    <SendDialog
      title={t("access.deleteTitle", { name })}
      submit={t("access.delete")}
      isDangerous
      send={() => kind.remove(name)}
      onDone={onDone}
      onClose={onClose}
    >
      <p>{t("access.deleteText")}</p>
    </SendDialog>
  );
}

interface EditProps {
  kind: DocumentKind;
  row: NamedDocument | null;
  /** Why the document cannot be saved. */
  reason: string | null;
  onClose: () => void;
  onDone: () => void;
}

function Edit({ kind, row, reason, onClose, onDone }: EditProps) {
  const [name, setName] = useState(row?.name ?? "");
  const [text, setText] = useState(pretty(row?.document ?? kind.template));
  const parsed = parseJson(text);
  const isReady = name.trim() !== "" && parsed.ok && isObject(parsed.value);
  return (
    <SendDialog
      title={row?.name ?? kind.create}
      submit={t("access.save")}
      width="medium"
      isReady={isReady}
      reason={reason}
      send={() => kind.save(name.trim(), parsed.ok ? parsed.value : null)}
      onDone={onDone}
      onClose={onClose}
    >
      {row === null && <TextField label={t("access.name")} value={name} onChange={setName} isCode autoFocus />}
      <TextField
        label={t("access.definition")}
        isCode
        rows={14}
        value={text}
        onChange={setText}
        error={parsed.ok ? null : parsed.message}
      />
    </SendDialog>
  );
}

function Trial({ kind, name, onClose }: { kind: DocumentKind; name: string; onClose: () => void }) {
  const { trial } = kind;
  const [text, setText] = useState(pretty(trial.args));
  const parsed = parseJson(text);
  const run = useMutation({ mutationFn: () => trial.run(name, parsed.ok ? parsed.value : null) });
  return (
    <Dialog
      title={`${trial.label}: ${name}`}
      isOpen
      width="wide"
      onClose={onClose}
      footer={
        <Button
          tone="primary"
          icon="play"
          isPending={run.isPending}
          isDisabled={!parsed.ok}
          onPress={() => run.mutate()}
        >
          {trial.label}
        </Button>
      }
    >
      {trial.args !== null && (
        <TextField
          label={t("access.arguments")}
          isCode
          rows={5}
          value={text}
          onChange={setText}
          error={parsed.ok ? null : parsed.message}
        />
      )}
      {run.error && <Problem problem={toProblem(run.error)} isInline />}
      {run.data !== undefined && <JsonTree label={trial.label} value={run.data} />}
    </Dialog>
  );
}
