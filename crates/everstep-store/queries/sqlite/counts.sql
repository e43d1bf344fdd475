-- The number of runs of each workflow in each status.
-- Served by the primary key of workflow_counts (workspace, workflow, status).
select workflow, status, n
from workflow_counts
where workspace = :workspace
    and n <> 0
order by workflow, status
