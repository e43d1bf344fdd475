-- Deletes at most :limit files that expired before :before, with their chunks. A bound file whose run exists is kept:
-- it is looked at again when its run has expired, or at :later if the run has not ended. Returns the number of both.
-- Served by files_expiring (expires_at) and the primary keys of files, runs and file_chunks (file, chunk).
with
due as materialized (
    select
        id,
        -- A scalar subquery: a join may be planned as a hash of all runs.
        case
            when seq is not null then (
                select greatest(coalesce(runs.expires_at, :later), :now)
                from runs
                where runs.id = files.run_id
            )
        end as kept_until
    from files
    where expires_at <= :before
    order by expires_at
    limit :limit
    for update skip locked
),
kept as (
    update files
    set expires_at = due.kept_until
    from due
    where files.id = due.id
        and due.kept_until is not null
),
deleted as (
    delete from files
    using due
    where files.id = due.id
        and due.kept_until is null
),
emptied as (
    delete from file_chunks
    using due
    where file_chunks.file = due.id
        and due.kept_until is null
)
select count(*)
from due
