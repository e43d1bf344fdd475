-- Makes one node the owner of at most :limit claimable runs of one workspace in a lane, of formats that this build knows,
-- oldest first.
-- Served by runs_claimable_by_workspace (lane, workspace, wake_at, id) where owner is null and ended_at is null and
-- wake_at is not the last time.
update runs
set owner = :node
where rowid in (
    select rowid
    from runs indexed by runs_claimable_by_workspace
    where lane = :lane
        and workspace = :workspace
        and owner is null
        and ended_at is null
        and wake_at <> 9223372036854775807
        and wake_at <= :now
        and format <= :format
    order by wake_at, id
    limit :limit
)
returning id, wake_at, workspace
