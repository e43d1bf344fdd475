-- At most :limit files that expired before :before. A bound file whose run exists has a time: when its run expires, or
-- :later if the run has not ended.
-- Served by files_expiring (expires_at) and the primary key of runs.
select
    id,
    case
        when seq is not null then (
            select max(coalesce(runs.expires_at, :later), :now)
            from runs
            where runs.id = files.run_id
        )
    end
from files
where expires_at <= :before
order by expires_at
limit :limit
