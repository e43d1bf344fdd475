-- Reserves a file for a run, unless it is bound.
-- Served by the primary key of files (id).
update files
set run_id = :run
where id = :id
    and seq is null
