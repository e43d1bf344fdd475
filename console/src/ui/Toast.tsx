// Short reports about actions, at the corner of the page.

import { useEffect } from "react";
import { t } from "../lib/i18n";
import { createStore, useStore } from "../lib/store";
import { Button } from "./Button";
import { Icon } from "./Icon";

interface ToastEntry {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const SHOWN_FOR = 6_000;
const toasts = createStore<readonly ToastEntry[]>([]);
let next = 0;

export function showToast(text: string, tone: "good" | "bad" = "good"): void {
  next += 1;
  toasts.set([...toasts.get(), { id: next, tone, text }].slice(-4));
}

const dismiss = (id: number) => toasts.set(toasts.get().filter((toast) => toast.id !== id));

export function Toasts() {
  const shown = useStore(toasts);
  return (
    <div className="ui-toasts" role="region" aria-label={t("ui.notices")} aria-live="polite">
      {shown.map((toast) => (
        <ToastView key={toast.id} toast={toast} />
      ))}
    </div>
  );
}

function ToastView({ toast }: { toast: ToastEntry }) {
  useEffect(() => {
    const timer = setTimeout(() => dismiss(toast.id), SHOWN_FOR);
    return () => clearTimeout(timer);
  }, [toast.id]);
  return (
    <div className={`ui-toast ${toast.tone}`}>
      <Icon name={toast.tone === "good" ? "check" : "alert"} />
      <span className="grow">{toast.text}</span>
      <Button icon="close" size="small" tone="ghost" label={t("ui.close")} onPress={() => dismiss(toast.id)} />
    </div>
  );
}
