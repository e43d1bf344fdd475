// `/nodes`

import { NodesScreen } from "../features/system/NodesScreen";

export default function NodesPage() {
  return <NodesScreen />;
}
