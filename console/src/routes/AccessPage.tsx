// `/access/:part`

import type { ComponentType } from "react";
import { AuditScreen } from "../features/access/AuditScreen";
import { QueriesScreen, SourcesScreen } from "../features/access/documents";
import { KeysScreen } from "../features/access/KeysScreen";
import { SecretsScreen } from "../features/access/SecretsScreen";
import { WorkspacesScreen } from "../features/access/WorkspacesScreen";
import { NothingHere } from "./NothingHere";

const PARTS: Record<string, ComponentType> = {
  keys: KeysScreen,
  secrets: SecretsScreen,
  sources: SourcesScreen,
  queries: QueriesScreen,
  workspaces: WorkspacesScreen,
  audit: AuditScreen,
};

export default function AccessPage({ part }: { part: string }) {
  const Screen = PARTS[part] ?? NothingHere;
  return <Screen />;
}
