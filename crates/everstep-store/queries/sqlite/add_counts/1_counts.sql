-- Adds to the number of a workflow's runs in one status.
-- Served by the primary key of workflow_counts (workspace, workflow, status).
insert into workflow_counts (workspace, workflow, status, n)
values (:workspace, :workflow, :status, :n)
on conflict (workspace, workflow, status) do update
set n = n + excluded.n
