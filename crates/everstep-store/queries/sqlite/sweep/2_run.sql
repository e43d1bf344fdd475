-- Deletes a run's row.
-- Served by the primary key of runs.
delete from runs
where id = :run
