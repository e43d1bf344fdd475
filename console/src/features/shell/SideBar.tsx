// The side bar: pages, workflows with their runs in progress, the caller.

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../api/client";
import { callerName, may, useMe } from "../../api/me";
import { useInbox, useWorkflows } from "../../api/queries";
import { dropSession, sessionStore } from "../../api/session";
import { liveSocket } from "../../api/socket";
import type { WorkflowSummary } from "../../api/types";
import { formatNumber, t, tWord } from "../../lib/i18n";
import { useStore } from "../../lib/store";
import { applyTheme, THEMES, themeStore } from "../../lib/theme";
import { paths } from "../../lib/url";
import { Button, Icon, Kbd, Link, Menu } from "../../ui";
import { isCurrent, type PageEntry, pagesFor } from "./pages";

const WORKFLOWS_MAX = 8;

export function SideBar({ onSearch, onKeys }: { onSearch: () => void; onKeys: () => void }) {
  const [location] = useLocation();
  const me = useMe().data;
  const [isOpen, setOpen] = useState(false);
  const visible = pagesFor(me);
  const inbox = useInbox(me !== undefined && may(me.permissions, "workflow:act")).data;
  const item = (page: PageEntry) => (
    <Link
      key={page.path}
      href={page.path}
      className={isCurrent(page.path, location) ? "side-item current" : "side-item"}
      isCurrent={isCurrent(page.path, location)}
    >
      <Icon name={page.icon} />
      <span className="cut grow">{t(page.title)}</span>
      {page.path === "/inbox" && inbox && inbox.inbox.length > 0 && (
        <span className="side-count">
          {formatNumber(inbox.inbox.length)}
          {inbox.nextCursor !== null && "+"}
        </span>
      )}
    </Link>
  );
  return (
    <aside className={isOpen ? "side open" : "side"}>
      <div className="side-head">
        <Logo />
        <span className="grow side-brand">
          <b>Everstep</b>
          <span className="cut faint">{me?.workspace.name ?? me?.workspace.id ?? ""}</span>
        </span>
        <span className="side-burger">
          <Button
            icon="sidebar"
            tone="ghost"
            label={t("nav.menu")}
            onPress={() => setOpen(!isOpen)}
            isExpanded={isOpen}
          />
        </span>
      </div>
      <div className="side-search">
        <Button icon="search" onPress={onSearch} className="grow">
          <span className="grow" style={{ textAlign: "start" }}>
            {t("palette.open")}
          </span>
          <Kbd keys="⌘ K" />
        </Button>
      </div>
      <nav className="side-nav" aria-label={t("nav.label")} onClick={() => setOpen(false)} onKeyDown={() => undefined}>
        {visible.filter((page) => page.group === "main").map(item)}
        <WorkflowLinks location={location} />
        {(["system", "access"] as const).map((group) => {
          const pages = visible.filter((page) => page.group === group);
          if (pages.length === 0) return null;
          return (
            <div key={group} role="presentation">
              <div className="ui-heading">{t(`nav.${group}`)}</div>
              {pages.map(item)}
            </div>
          );
        })}
      </nav>
      <SideFoot onKeys={onKeys} />
    </aside>
  );
}

function WorkflowLinks({ location }: { location: string }) {
  const workflows = useWorkflows().data ?? [];
  if (workflows.length === 0) return null;
  const shown = [...workflows]
    .sort((a, b) => open(b) - open(a) || a.name.localeCompare(b.name))
    .slice(0, WORKFLOWS_MAX);
  return (
    <>
      <div className="ui-heading">{t("nav.workflowList")}</div>
      {shown.map((workflow) => {
        const isHere = isCurrent(paths.workflow(workflow.name), location);
        return (
          <Link
            key={workflow.name}
            href={paths.workflow(workflow.name)}
            className={isHere ? "side-item current" : "side-item"}
            isCurrent={isHere}
          >
            <span
              className={`side-dot is-${workflow.failed > 0 ? "failed" : open(workflow) > 0 ? "running" : "pending"}`}
            />
            <span className="cut grow" title={workflow.name}>
              {workflow.name}
            </span>
            {open(workflow) > 0 && (
              <span className="side-count">{formatNumber(open(workflow), { notation: "compact" })}</span>
            )}
          </Link>
        );
      })}
    </>
  );
}

const open = (workflow: WorkflowSummary) => workflow.pending + workflow.running + workflow.waiting + workflow.paused;

function SideFoot({ onKeys }: { onKeys: () => void }) {
  const me = useMe().data;
  const theme = useStore(themeStore);
  const live = useStore(liveSocket().state);
  const client = useQueryClient();
  const signOut = async () => {
    const session = sessionStore.get();
    // A key that the sign-in has made is of no use after it.
    if (session?.ownKey) await call("DELETE /v1/sign-ins/current").catch(() => undefined);
    dropSession();
    client.clear();
  };
  const icon = { system: "monitor", light: "sun", dark: "moon" } as const;
  return (
    <div className="side-foot">
      <span
        className={`side-live ${live.phase}`}
        title={t(`live.${live.phase}`)}
        role="img"
        aria-label={t(`live.${live.phase}`)}
      />
      <span className="cut grow muted" title={me ? callerName(me) : ""}>
        {me ? callerName(me) : ""}
      </span>
      <Menu
        label={t("nav.settings")}
        trigger={<Button icon="more" tone="ghost" size="small" label={t("nav.settings")} />}
        entries={[
          ...THEMES.map((name) => ({
            id: `theme-${name}`,
            label: tWord("theme", name),
            icon: icon[name],
            isSelected: theme === name,
            onAction: () => applyTheme(name),
          })),
          { id: "keys", label: t("help.title"), icon: "info" as const, onAction: onKeys, startsGroup: true },
          {
            id: "docs",
            label: t("nav.docs"),
            icon: "audit" as const,
            onAction: () => window.open("/docs", "_blank", "noopener"),
          },
          {
            id: "out",
            label: t("nav.signOut"),
            icon: "signOut" as const,
            onAction: () => void signOut(),
            startsGroup: true,
          },
        ]}
      />
    </div>
  );
}

export function Logo({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" className="side-logo">
      <rect width="32" height="32" rx="8" fill="var(--accent-solid)" />
      <path
        d="M7 23h6v-5h6v-5h6V8"
        fill="none"
        stroke="#fff"
        strokeWidth="3"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
