-- The figures of the minutes of a period, of all workflows or of one.
-- Served by the primary key of run_stats (workspace, minute, workflow).
select minute, started, completed, failed, cancelled, durations
from run_stats
where workspace = :workspace
    and minute >= :since
    and minute < :until
    and (:workflow is null or workflow = :workflow)
order by minute
