-- Counts the runs of each workflow in each status. Test runs are left out.
-- Reads all runs: it is rarely executed.
insert into workflow_counts (workspace, workflow, status, n)
select workspace, workflow, status, count(*)
from runs
where not is_test
group by workspace, workflow, status
