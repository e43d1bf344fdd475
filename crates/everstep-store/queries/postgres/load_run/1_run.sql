-- A run's row, whole.
-- Served by the primary key of runs.
select
    id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    tags::text, error, input::text, output
from runs
where id = :run
