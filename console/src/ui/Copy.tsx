// Texts that can be copied.

import { useEffect, useState } from "react";
import { t } from "../lib/i18n";
import { Button } from "./Button";

const SHOWN_FOR = 1_500;

/** A large text is given by a function, so that it is made only when it is copied. */
export function CopyButton({ text, label }: { text: string | (() => string); label?: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN_FOR);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => {
    const copied = typeof text === "string" ? text : text();
    void navigator.clipboard.writeText(copied).then(() => setCopied(true));
  };
  return (
    <Button
      icon={isCopied ? "check" : "copy"}
      size="small"
      tone="ghost"
      label={isCopied ? t("ui.copied") : (label ?? t("ui.copy"))}
      onPress={copy}
    />
  );
}

/** A text in one line, cut where space ends, with a button that copies all of it. */
export function Copyable({ text, shown, isMono }: { text: string; shown?: string; isMono?: boolean }) {
  return (
    <span className="ui-copyable">
      <span className={isMono ? "cut mono" : "cut"} title={text}>
        {shown ?? text}
      </span>
      <CopyButton text={text} />
    </span>
  );
}

export function CodeBlock({ text }: { text: string }) {
  return (
    <div className="ui-code">
      <pre>{text}</pre>
      <CopyButton text={text} />
    </div>
  );
}
