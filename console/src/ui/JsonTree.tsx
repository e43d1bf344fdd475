// A JSON value: a tree with search, or its text; copied and saved from here.

import { useDeferredValue, useMemo, useState } from "react";
import { formatBytes } from "../lib/bytes";
import { downloadText } from "../lib/download";
import { formatNumber, t } from "../lib/i18n";
import {
  CHILDREN_MAX,
  isContainer,
  type JsonRow,
  jsonRows,
  pathExpression,
  pretty,
  size,
  textParts,
} from "../lib/json";
import { Button } from "./Button";
import { CopyButton } from "./Copy";
import { Icon } from "./Icon";
import { TextField } from "./TextField";
import { Tree } from "./Tree";

interface JsonTreeProps {
  label: string;
  value: unknown;
  /** The name of the file that is saved. */
  fileName?: string;
  /** The variable that the value is in, for paths as expressions: `ctx`. */
  root?: string;
  /** As high as its surroundings. */
  isFill?: boolean;
  /** Containers up to this depth are open at first. */
  openDepth?: number;
}

/** Letters of a text in one row. A longer one is shown in the raw view. */
const TEXT_MAX = 2_000;
/** The height of a line of the text, in px. */
const LINE_HEIGHT = 18;

export function JsonTree({ label, value, fileName = "value.json", root, isFill, openDepth = 2 }: JsonTreeProps) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [search, setSearch] = useState("");
  const [isRaw, setRaw] = useState(false);
  const needle = useDeferredValue(search);
  const rows = useMemo(() => {
    const isOpen = (id: string, depth: number) => depth < openDepth !== toggled.has(id);
    return jsonRows(value, isOpen, needle);
  }, [value, toggled, needle, openDepth]);
  const toggle = (row: JsonRow) => {
    const next = new Set(toggled);
    if (!next.delete(row.id)) next.add(row.id);
    setToggled(next);
  };
  return (
    <div className={isFill ? "ui-json fill" : "ui-json"}>
      <div className="ui-json-bar">
        <div className="grow">
          <TextField
            label={t("json.search")}
            isLabelHidden
            type="search"
            placeholder={t("json.search")}
            value={search}
            onChange={setSearch}
            isDisabled={isRaw || !isContainer(value)}
          />
        </div>
        <Button
          size="small"
          tone="ghost"
          icon="code"
          label={isRaw ? t("json.tree") : t("json.raw")}
          onPress={() => setRaw(!isRaw)}
        />
        <CopyButton text={() => pretty(value)} />
        <Button
          size="small"
          tone="ghost"
          icon="download"
          label={t("json.download")}
          onPress={() => downloadText(fileName, pretty(value))}
        />
      </div>
      {isRaw ? (
        <Raw value={value} />
      ) : (
        <Tree
          label={label}
          rows={rows}
          onToggle={toggle}
          rowClass={(row) => (row.matches ? "ui-json-row matches" : "ui-json-row")}
          className="ui-json-rows"
          rowHeight={20}
        >
          {(row) => <Row row={row} root={root} toggle={toggle} />}
        </Tree>
      )}
    </div>
  );
}

/** The text of a value, in parts: the browser lays out only those on screen. */
function Raw({ value }: { value: unknown }) {
  const parts = useMemo(() => textParts(pretty(value)), [value]);
  return (
    <pre>
      {parts.map(({ text, lines }, index) => (
        <span key={index} style={{ containIntrinsicSize: `auto ${lines * LINE_HEIGHT}px` }}>
          {text}
        </span>
      ))}
    </pre>
  );
}

function Row({ row, root, toggle }: { row: JsonRow; root?: string; toggle: (row: JsonRow) => void }) {
  return (
    <>
      <span style={{ width: row.depth * 14 + 4, flex: "none" }} />
      {row.isContainer ? (
        <span className="twist" onClick={() => toggle(row)} onKeyDown={() => undefined} role="presentation">
          <Icon name={row.isOpen ? "chevronDown" : "chevronRight"} size={12} />
        </span>
      ) : (
        <span className="twist" />
      )}
      {row.name !== null && <span className="key">{row.name}: </span>}
      <Value value={row.value} isOpen={row.isOpen} />
      {root !== undefined && row.name !== null && (
        <span className="copy">
          <CopyButton text={`{{${pathExpression(root, row.path)}}}`} label={t("json.copyPath")} />
        </span>
      )}
    </>
  );
}

function Value({ value, isOpen }: { value: unknown; isOpen: boolean }) {
  if (isContainer(value)) {
    const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
    const count = size(value);
    // The entries of a large container that are drawn, of all.
    const part = count > CHILDREN_MAX ? ` ${formatNumber(CHILDREN_MAX)} / ${formatNumber(count)}` : "";
    return <span className="value container">{isOpen ? begin + part : `${begin}… ${formatNumber(count)} ${end}`}</span>;
  }
  if (typeof value === "string") {
    const isLong = value.length > TEXT_MAX;
    return (
      <span className="value text">
        "{isLong ? value.slice(0, TEXT_MAX) : value}"{isLong && <i className="faint"> … {formatBytes(value.length)}</i>}
      </span>
    );
  }
  return <span className={typeof value === "number" ? "value number" : "value word"}>{String(value)}</span>;
}
