-- The next workspace with unowned runs in a lane that become due, and when the first of them does: one probe of the index.
-- Served by runs_claimable_by_workspace (lane, workspace, wake_at, id) where owner is null and ended_at is null and
-- wake_at is not the last time.
select workspace, wake_at
from runs indexed by runs_claimable_by_workspace
where lane = :lane
    and owner is null
    and ended_at is null
    and wake_at <> 9223372036854775807
    and workspace > :after
order by workspace, wake_at, id
limit 1
