// Says that the page does not receive updates.

import { liveSocket, STALE_AFTER } from "../../api/socket";
import { useNow } from "../../lib/clock";
import { t } from "../../lib/i18n";
import { useStore } from "../../lib/store";
import { formatClock } from "../../lib/time";
import { Icon } from "../../ui";

export function LiveBanner() {
  const { since } = useStore(liveSocket().state);
  const now = useNow();
  if (since === null || now - since < STALE_AFTER) return null;
  return (
    <div className="ui-banner" role="status">
      <Icon name="alert" size={14} />
      {t("live.since", { time: formatClock(since) })}
    </div>
  );
}
