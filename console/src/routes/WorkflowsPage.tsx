// `/workflows`

import { WorkflowsList } from "../features/workflows/WorkflowsList";

export default function WorkflowsPage() {
  return <WorkflowsList />;
}
