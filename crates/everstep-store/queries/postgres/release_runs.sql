-- Makes at most :limit runs of fenced owners claimable.
-- Served by runs_owned (owner) where owner is not null.
with orphan as materialized (
    select run.id
    from nodes
    cross join lateral (
        select id
        from runs
        where owner = nodes.id
        limit :limit
        for update skip locked
    ) as run
    where nodes.fenced
    limit :limit
)
update runs
set owner = null, wake_at = :now
from orphan
where runs.id = orphan.id
