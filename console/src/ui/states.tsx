// The states of a screen that has nothing to show: loading, empty, refused.

import type { ReactNode } from "react";
import { commands } from "../lib/commands";
import { t } from "../lib/i18n";
import { Button } from "./Button";
import { CodeBlock, Copyable } from "./Copy";
import { Icon, type IconName } from "./Icon";

const WIDTHS = [72, 54, 63, 81, 46, 68, 58, 76];

/** Bars in place of rows. They appear after 150 ms, so that a quick answer does not flicker. */
export function Skeleton({ rows = 8 }: { rows?: number }) {
  return (
    <div className="ui-skeleton" role="status" aria-label={t("ui.loading")}>
      {Array.from({ length: rows }, (_, index) => (
        <i key={index} style={{ width: `${WIDTHS[index % WIDTHS.length]}%` }} />
      ))}
    </div>
  );
}

interface EmptyProps {
  icon: IconName;
  title: string;
  children?: ReactNode;
  /** A command that is the next step. */
  command?: string;
  action?: ReactNode;
}

export function Empty({ icon, title, children, command, action }: EmptyProps) {
  return (
    <div className="ui-empty">
      <span className="glyph">
        <Icon name={icon} size={20} />
      </span>
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {command && <CodeBlock text={command} />}
      {action}
    </div>
  );
}

/** A remark that is not an error. An alert is read out when it appears. */
export function Note({ children, isAlert, className }: { children: ReactNode; isAlert?: boolean; className?: string }) {
  return (
    <p className={className ? `ui-note ${className}` : "ui-note"} role={isAlert ? "alert" : undefined}>
      {children}
    </p>
  );
}

/** What a screen shows of a failed request. */
export interface ProblemFacts {
  message: string;
  code: string;
  hint: string | null;
  requestId: string;
  permission: string | null;
}

interface ProblemProps {
  problem: ProblemFacts;
  onRetry?: () => void;
  isInline?: boolean;
}

export function Problem({ problem, onRetry, isInline }: ProblemProps) {
  if (problem.permission) return <Forbidden permission={problem.permission} isInline={isInline} />;
  return (
    <div className={isInline ? "ui-problem inline" : "ui-problem"} role="alert">
      <h2>{problem.message}</h2>
      {problem.hint && <p>{problem.hint}</p>}
      <div className="facts">
        <span>
          {t("problem.code")} <code>{problem.code}</code>
        </span>
        {problem.requestId && (
          <span className="row">
            {t("problem.request")} <Copyable text={problem.requestId} isMono />
          </span>
        )}
      </div>
      {onRetry && (
        <Button icon="retry" onPress={onRetry}>
          {t("ui.retry")}
        </Button>
      )}
    </div>
  );
}

function Forbidden({ permission, isInline }: { permission: string; isInline?: boolean }) {
  const text = t("problem.forbidden", { permission });
  if (isInline) {
    return (
      <p className="muted row">
        <Icon name="lock" size={14} /> {text}
      </p>
    );
  }
  return (
    <Empty icon="lock" title={t("problem.forbiddenTitle")} command={commands.keyWith(permission)}>
      {text}
    </Empty>
  );
}
