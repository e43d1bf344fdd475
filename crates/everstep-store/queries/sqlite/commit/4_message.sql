-- Sends an input to a run that exists and has not ended.
-- Served by the primary key of runs.
insert into inbox (run_id, workspace, created_at, input)
select id, workspace, :now, :input
from runs
where id = :to
    and ended_at is null
