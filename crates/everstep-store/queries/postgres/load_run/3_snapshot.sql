-- A run's snapshot.
-- Served by the primary key of snapshots.
select seq, format, codec, state
from snapshots
where run_id = :run
