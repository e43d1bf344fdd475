-- Who owns the run that a message is for, in which workspace it is, and whether it has ended.
-- Served by the primary key of runs.
select owner, workspace, ended_at is not null
from runs
where id = :to
