// The frame of a screen: its title, its actions, its content.

import { type ReactNode, useEffect } from "react";
import { Icon } from "./Icon";
import { Link } from "./Link";

interface PageProps {
  title: string;
  /** The page above this one. */
  parent?: { label: string; href: string };
  badge?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, parent, badge, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Everstep`;
  }, [title]);
  return (
    <main className="ui-page" id="content">
      <header className="ui-page-head">
        {parent && (
          <span className="row trail">
            <Link href={parent.href} isQuiet>
              {parent.label}
            </Link>
            <Icon name="chevronRight" size={12} />
          </span>
        )}
        <h1 title={title}>{title}</h1>
        {badge}
        <span className="grow" />
        {actions}
      </header>
      {children}
    </main>
  );
}

export function Card({ title, action, children }: { title: string; action?: ReactNode; children: ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        {action}
      </div>
      {children}
    </section>
  );
}

/** Names with their values. */
export function Facts({ facts }: { facts: ReadonlyArray<readonly [string, ReactNode]> }) {
  return (
    <dl className="ui-facts">
      {facts.map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
