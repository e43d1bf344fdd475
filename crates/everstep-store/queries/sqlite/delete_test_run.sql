-- Deletes the row of a test run that has ended.
-- Served by the primary key of runs.
delete from runs
where id = :run
    and workspace = :workspace
    and is_test = 1
    and ended_at is not null
