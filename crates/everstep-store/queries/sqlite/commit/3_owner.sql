-- A run's owner; no row when there is no run.
-- Served by the primary key of runs.
select owner
from runs
where id = :run
