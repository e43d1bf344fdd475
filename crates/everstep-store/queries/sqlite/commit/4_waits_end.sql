-- Closes all waits of a run that has ended.
-- Served by the primary key of waits (run_id, step).
delete from waits
where run_id = :run
