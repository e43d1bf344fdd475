-- The next workspaces after :after with unowned runs in the server's own lane that become due, and whether one is due.
-- One probe of the index for each, at most :limit.
-- Served by runs_claimable_by_workspace (lane, workspace, wake_at, id) where owner is null and ended_at is null and
-- wake_at is not the last time.
with recursive visit (workspace, wake_at, visits) as (
    select :after::uuid, null::bigint, 0
    union all
    select next.workspace, next.wake_at, visit.visits + 1
    from visit
    cross join lateral (
        select runs.workspace, runs.wake_at
        from runs
        where lane = ''
            and owner is null
            and ended_at is null
            and runs.wake_at <> 9223372036854775807
            and runs.workspace > visit.workspace
        order by runs.workspace, runs.wake_at, id
        limit 1
    ) as next
    where visit.visits < :limit
)
select workspace, wake_at <= :now
from visit
where visits > 0
order by workspace
