-- Makes at most :limit runs of fenced owners claimable.
-- Served by runs_owned (owner) where owner is not null.
update runs
set owner = null, wake_at = :now
where rowid in (
    select runs.rowid
    from nodes
    cross join runs on runs.owner = nodes.id
    where nodes.fenced = 1
    limit :limit
)
