-- Makes one node the owner of at most :limit claimable runs of one lane, of formats that this build knows, oldest first.
-- Served by runs_claimable (lane, wake_at, id) where owner is null and ended_at is null.
update runs
set owner = :node
where rowid in (
    select rowid
    from runs
    where lane = :lane
        and owner is null
        and ended_at is null
        and wake_at <= :now
        and format <= :format
    order by wake_at, id
    limit :limit
)
returning id, wake_at, workspace
