-- Closes a wait.
-- Served by the primary key of waits (run_id, step).
delete from waits
where run_id = :run
    and step = :step
