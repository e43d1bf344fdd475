// The quotas of the caller's workspace, with their use.

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { call } from "../../api/client";
import { ME_KEY } from "../../api/me";
import { POLL_MIN } from "../../api/queries";
import type { Quota } from "../../api/types";
import { formatNumber, t, tParts, tWord } from "../../lib/i18n";
import { Card, Meter, Note } from "../../ui";
import { type QuotaLevel, readUse } from "./quotaModel";

const TONES = { free: "accent", near: "warning", reached: "danger" } as const satisfies Record<QuotaLevel, string>;

export function Quotas() {
  const me = useQuery({
    queryKey: ME_KEY,
    queryFn: ({ signal }) => call("GET /v1/me", { signal }),
    refetchInterval: POLL_MIN,
  }).data;
  if (me === undefined || me.quotas.length === 0) return null;
  return (
    <div className="quotas">
      <Card title={t("quotas.title", { workspace: me.workspace.name ?? me.workspace.id })}>
        <ul>
          {me.quotas.map((quota) => (
            <QuotaLine key={quota.name} quota={quota} />
          ))}
        </ul>
      </Card>
    </div>
  );
}

function QuotaLine({ quota }: { quota: Quota }) {
  const id = useId();
  const { level, percent } = readUse(quota);
  const use = t("quotas.use", { used: quota.used, max: quota.max });
  return (
    <li className="quota">
      <span id={id}>{tWord("quota", quota.name)}</span>
      <Meter labelledBy={id} value={quota.used} max={quota.max} valueText={use} tone={TONES[level]} />
      <span className="muted tnum">{use}</span>
      {level !== "free" && (
        <Note>
          {level === "near"
            ? t("quotas.near", { share: formatNumber(percent / 100, { style: "percent" }) })
            : t("quotas.reached")}{" "}
          {quota.setting === null
            ? t("quotas.free")
            : tParts("quotas.raise", { code: (text) => <code>{text}</code> }, { setting: quota.setting })}
        </Note>
      )}
    </li>
  );
}
