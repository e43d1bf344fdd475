// Messages with parts that are elements: "Open <link>the docs</link>".

import { Fragment, type ReactNode } from "react";
import { type MessageKey, t, type Values } from "./messages";

export type Parts = Record<string, (children: ReactNode) => ReactNode>;

/** Writes out a message; each named part is drawn by its function. A part without a function is plain text. */
export function tParts(key: MessageKey, parts: Parts, values: Values = {}): ReactNode {
  return draw(t(key, values), parts);
}

export function draw(text: string, parts: Parts): ReactNode {
  const nodes: ReactNode[] = [];
  const pattern = /<(\w+)>(.*?)<\/\1>/g;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [whole, name = "", inner = ""] = match;
    nodes.push(text.slice(end, match.index));
    nodes.push(parts[name] ? parts[name](inner) : inner);
    end = match.index + whole.length;
  }
  nodes.push(text.slice(end));
  return nodes.map((node, index) => <Fragment key={index}>{node}</Fragment>);
}
