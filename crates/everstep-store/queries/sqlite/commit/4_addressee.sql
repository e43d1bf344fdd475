-- The owner and the workspace of the run that an input is for, and whether it has ended.
-- Served by the primary key of runs.
select owner, workspace, ended_at is not null
from runs
where id = :to
