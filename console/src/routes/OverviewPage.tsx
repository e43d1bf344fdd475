// `/`

import { Figures } from "../features/figures/Figures";
import { Overview } from "../features/overview/Overview";

export default function OverviewPage() {
  return <Overview figures={<Figures />} />;
}
