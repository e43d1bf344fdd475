// A link inside the console, or to another page of the server.

import type { ReactNode } from "react";
import { Link as AriaLink } from "react-aria-components";

export interface LinkProps {
  href: string;
  children: ReactNode;
  className?: string;
  /** Looks like the text around it. */
  isQuiet?: boolean;
  isExternal?: boolean;
  title?: string;
  isCurrent?: boolean;
  label?: string;
}

export function Link({ href, children, className, isQuiet, isExternal, title, isCurrent, label }: LinkProps) {
  const classes = className ?? (isQuiet ? "ui-link quiet" : "ui-link");
  return (
    <AriaLink
      href={href}
      className={classes}
      aria-label={label}
      aria-current={isCurrent ? "page" : undefined}
      {...(isExternal ? { target: "_blank", rel: "noopener noreferrer" } : {})}
    >
      {title === undefined ? children : <span title={title}>{children}</span>}
    </AriaLink>
  );
}
