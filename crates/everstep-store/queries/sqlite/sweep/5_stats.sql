-- Deletes at most :limit figures of minutes before :before.
-- Served by the primary key of run_stats (workspace, minute, workflow), which is searched once per workspace.
delete from run_stats
where (workspace, minute, workflow) in (
    select run_stats.workspace, run_stats.minute, run_stats.workflow
    from workspaces
    cross join run_stats on run_stats.workspace = workspaces.id
    where run_stats.minute < :before
    limit :limit
)
