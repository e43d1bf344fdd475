// `/inbox`

import { InboxScreen } from "../features/inbox/InboxScreen";

export default function InboxPage() {
  return <InboxScreen />;
}
