// The command palette: pages, workflows, runs by id, actions of the page on screen.

import { useLocation } from "wouter";
import { useMe } from "../../api/me";
import { useWorkflows } from "../../api/queries";
import { t } from "../../lib/i18n";
import { pageActions } from "../../lib/pageActions";
import { useStore } from "../../lib/store";
import { applyTheme, THEMES } from "../../lib/theme";
import { paths, withQuery } from "../../lib/url";
import { type Command, CommandDialog } from "../../ui";
import { pagesFor } from "./pages";
import { rankCommands } from "./rankCommands";

const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [, navigate] = useLocation();
  const me = useMe().data;
  const workflows = useWorkflows().data ?? [];
  const actions = useStore(pageActions);
  const all: Command[] = [
    ...actions.map((action) => ({
      ...action,
      id: `action-${action.id}`,
      group: t("palette.actions"),
      icon: "arrowRight" as const,
    })),
    ...pagesFor(me).map((page) => ({
      id: page.path,
      group: t("palette.pages"),
      label: t(page.title),
      icon: page.icon,
      keys: page.keys,
      run: () => navigate(page.path),
    })),
    ...workflows.map((workflow) => ({
      id: `workflow-${workflow.name}`,
      group: t("nav.workflows"),
      label: workflow.name,
      icon: "workflow" as const,
      run: () => navigate(paths.workflow(workflow.name)),
    })),
    ...THEMES.map((theme) => ({
      id: `theme-${theme}`,
      group: t("palette.theme"),
      label: t(`theme.${theme}`),
      icon: "monitor" as const,
      run: () => applyTheme(theme),
    })),
  ];
  const find = (text: string): readonly Command[] => {
    const typed = text.trim();
    const found = rankCommands(all, typed);
    if (RUN_ID.test(typed)) {
      const open = {
        id: "run",
        group: t("nav.runs"),
        label: t("palette.openRun", { id: typed }),
        icon: "runs" as const,
      };
      return [{ ...open, run: () => navigate(paths.run(typed)) }, ...found];
    }
    if (typed.length < 3) return found;
    const search = {
      id: "search",
      group: t("nav.runs"),
      label: t("palette.searchRuns", { text: typed }),
      icon: "search" as const,
    };
    return [...found, { ...search, run: () => navigate(withQuery("/runs", { text: typed })) }];
  };
  return (
    <CommandDialog
      label={t("palette.title")}
      placeholder={t("palette.placeholder")}
      isOpen={isOpen}
      onClose={onClose}
      find={find}
    />
  );
}
