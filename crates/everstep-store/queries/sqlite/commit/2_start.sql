-- Inserts a new run, unless its id or its idempotency key exists.
-- Served by the primary key of runs and runs_keyed (workspace, idempotency_scope, idempotency_key).
-- Bound by position.
insert into runs (
    id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    tags, error, input, output
)
values (
    :run, :owner, :wake_at, :ended_at, :status, :format, :workspace, :workflow, :version, :lane,
    :scope, :key, :parent, :retention_days, :is_test, :created_at,
    :tags, :error, :input, :output
)
on conflict do nothing
