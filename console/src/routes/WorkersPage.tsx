// `/workers`

import { WorkersScreen } from "../features/system/WorkersScreen";

export default function WorkersPage() {
  return <WorkersScreen />;
}
