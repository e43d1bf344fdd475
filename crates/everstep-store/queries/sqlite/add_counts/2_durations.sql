-- The durations of a minute of a workflow.
-- Served by the primary key of run_stats (workspace, minute, workflow).
select durations
from run_stats
where workspace = :workspace
    and minute = :minute
    and workflow = :workflow
