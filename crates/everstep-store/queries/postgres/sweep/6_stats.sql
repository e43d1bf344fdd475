-- Deletes at most :limit figures of minutes before :before. Returns their number.
-- Served by the primary key of run_stats (workspace, minute, workflow), which is searched once per workspace.
with
old as materialized (
    select entry.workspace, entry.minute, entry.workflow
    from workspaces
    cross join lateral (
        select workspace, minute, workflow
        from run_stats
        where run_stats.workspace = workspaces.id
            and run_stats.minute < :before
        order by minute, workflow
        limit :limit
        for update skip locked
    ) as entry
    limit :limit
),
deleted as (
    delete from run_stats
    using old
    where run_stats.workspace = old.workspace
        and run_stats.minute = old.minute
        and run_stats.workflow = old.workflow
    returning run_stats.minute
)
select count(*)
from deleted
