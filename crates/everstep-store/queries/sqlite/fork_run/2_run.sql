-- Inserts a copy of a run, as it was before its first step: unowned, running and due.
-- Served by the primary key of runs.
insert into runs (
    id, wake_at, status, format, workspace, workflow, version, lane,
    retention_days, is_test, created_at, origin, tags, input
)
select
    :run, :now, 'running', format, workspace, workflow, version, lane,
    retention_days, is_test, :now, id, tags, input
from runs
where id = :source
