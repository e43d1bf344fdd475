-- Reserves files for a run: all of them, or none if one of them is not free. A file is free if it was uploaded by this
-- person, has not expired, and has no run or this one. A file that is bound to this run is left as it is.
-- Returns the files that exist, as they were. Served by the primary key of files (id).
with
found as materialized (
    select
        id, run_id, seq, expires_at,
        run_id is not distinct from :run and seq is not null as is_bound,
        (run_id is null or run_id = :run) and seq is null and expires_at > :now as is_free
    from files
    where id = any(:ids::uuid[])
        and workspace = :workspace
        and uploaded_by = :uploaded_by
        and sha256 is not null
    order by id
    for update
),
reserved as (
    update files
    set run_id = :run
    from found
    where files.id = found.id
        and found.is_free
        and (select count(*) from found where is_free or is_bound) = :count
)
select id, run_id, seq, expires_at
from found
