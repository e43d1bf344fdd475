// `/runs/:id`

import { RunScreen } from "../features/run/RunScreen";

export default function RunPage({ id }: { id: string }) {
  return <RunScreen id={id} />;
}
