-- Binds a file that is reserved for the run to an entry.
-- Served by the primary key of files (id).
update files
set seq = :seq
where id = :file
    and run_id = :run
    and seq is null
