-- Inserts a new run, unless its id or its idempotency key is taken, or something is left of a run that had its id.
-- Served by the primary keys of runs and graves, and by runs_keyed (workspace, idempotency_scope, idempotency_key).
insert into runs (
    id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    tags, error, input, output
)
select
    :run, :owner, :wake_at, :ended_at, :status, :format, :workspace, :workflow, :version, :lane,
    :scope, :key, :parent, :retention_days, :is_test, :created_at,
    :tags, :error, :input, :output
where not exists (
    select 1
    from graves
    where run_id = :run
)
on conflict do nothing
