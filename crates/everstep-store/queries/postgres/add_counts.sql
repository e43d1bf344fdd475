-- Adds to the numbers of workflows' runs in each status, in the order of their keys.
-- Served by the primary key of workflow_counts (workspace, workflow, status).
insert into workflow_counts (workspace, workflow, status, n)
select :workspace, workflow, status, sum(n)::bigint
from unnest(:workflows::text[], :statuses::text[], :numbers::bigint[]) as delta (workflow, status, n)
group by workflow, status
order by workflow, status
on conflict (workspace, workflow, status) do update
set n = workflow_counts.n + excluded.n
