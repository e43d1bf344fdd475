// A line of a log: wrapped, with its line breaks; addresses are links.

import { Link } from "../../../ui";

/** Letters that are drawn of one line. */
const LENGTH_MAX = 20_000;
const ADDRESS = /https?:\/\/[^\s<>"'`]+[^\s<>"'`.,;:!?)\]}]/g;

export interface LogPart {
  text: string;
  href: string | null;
}

/** Splits a line into texts and addresses. Only `http` and `https` become links. */
export function logParts(line: string): LogPart[] {
  const text = line.length > LENGTH_MAX ? `${line.slice(0, LENGTH_MAX)}…` : line;
  const parts: LogPart[] = [];
  let end = 0;
  for (const match of text.matchAll(ADDRESS)) {
    if (match.index > end) parts.push({ text: text.slice(end, match.index), href: null });
    parts.push({ text: match[0], href: match[0] });
    end = match.index + match[0].length;
  }
  if (end < text.length) parts.push({ text: text.slice(end), href: null });
  return parts;
}

export function LogText({ text }: { text: string }) {
  return (
    <span className="logs-text">
      {logParts(text).map((part, index) =>
        part.href === null ? (
          part.text
        ) : (
          <Link key={index} href={part.href} isExternal>
            {part.text}
          </Link>
        ),
      )}
    </span>
  );
}
