-- Indexes for lists of runs that are running, of several statuses of one workflow, and of the forks of a run.

-- A run that starts and ends in one item is never in this index.
create index runs_running on runs (workspace, created_at, id)
where status = 'running' and not is_test;

-- A run that runs without a stop and completes is never in this index. Runs that are running are few: those of one
-- workflow are found among those of all.
create index runs_of_workflow_by_status on runs (workspace, workflow, status, created_at, id)
where status not in ('running', 'completed') and not is_test;

create index runs_by_origin on runs (origin, created_at, id)
where origin is not null;
