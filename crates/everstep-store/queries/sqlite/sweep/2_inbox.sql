-- Deletes a run's inbox rows.
-- Served by inbox_by_run (run_id, id).
delete from inbox
where run_id = :run
