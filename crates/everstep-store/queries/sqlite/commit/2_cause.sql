-- Writes the columns of a new run that few runs have: its trigger, and its start if it begins later.
-- Served by the primary key of runs.
update runs
set trigger = :trigger, start = :start
where id = :run
