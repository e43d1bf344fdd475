-- Writes the state of a machine and its number, after the other columns of the run's row.
-- Items of other styles do not need this statement. Served by the primary key of runs.
update runs
set state = :state, version_no = :version_no
where id = :run
