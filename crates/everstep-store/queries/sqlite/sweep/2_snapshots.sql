-- Deletes a run's snapshot.
-- Served by the primary key of snapshots.
delete from snapshots
where run_id = :run
