// The keys of the console.

import { type MessageKey, t } from "../../lib/i18n";
import { Dialog, Kbd } from "../../ui";
import { PAGES } from "./pages";

const KEYS: ReadonlyArray<readonly [string, MessageKey]> = [
  ["⌘ K", "help.palette"],
  ["?", "help.help"],
  ["↑ ↓", "help.move"],
  ["Enter", "help.open"],
  ["Space", "help.select"],
  ["← →", "help.entry"],
  ["⇧ ← →", "help.tenEntries"],
  ["Home End", "help.ends"],
  ["L", "help.live"],
  ["Esc", "help.close"],
];

export function KeyHelp({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Dialog title={t("help.title")} isOpen={isOpen} onClose={onClose}>
      <div className="keys">
        {KEYS.map(([keys, text]) => (
          <div key={keys} className="row">
            <span className="grow">{t(text)}</span>
            <Kbd keys={keys} />
          </div>
        ))}
        {PAGES.filter((page) => page.keys).map((page) => (
          <div key={page.path} className="row">
            <span className="grow">{t("help.goTo", { page: t(page.title) })}</span>
            <Kbd keys={page.keys ?? ""} />
          </div>
        ))}
      </div>
    </Dialog>
  );
}
