-- A run's owner; no row if the run does not exist.
-- Served by the primary key of runs.
select owner
from runs
where id = :run
