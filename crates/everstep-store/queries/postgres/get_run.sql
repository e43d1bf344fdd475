-- A run of one workspace, with all columns.
-- Served by the primary key of runs and by journal_by_seq (run_id, seq).
select
    id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
    idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
    origin, tags::text, error, input::text, output, state, version_no, trigger::text, start::text,
    (select coalesce(max(seq), 0) from journal where run_id = :run)
from runs
where id = :run
    and workspace = :workspace
