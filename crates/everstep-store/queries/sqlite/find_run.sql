-- The run that holds an idempotency key, whole.
-- Served by runs_keyed (workspace, idempotency_scope, idempotency_key) where idempotency_key is not null,
-- and by journal_by_seq (run_id, seq).
select
    id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    origin, tags, error, input, output,
    (select coalesce(max(seq), 0) from journal where run_id = runs.id)
from runs
where workspace = :workspace
    and idempotency_scope = :scope
    and idempotency_key = :key
