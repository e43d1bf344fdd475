-- At most :limit runs of a workspace that failed, or are paused, with a code, before a position, newest first. Test runs
-- are left out.
-- Served by runs_by_error (workspace, error ->> '$.code', created_at, id) where error is not null and is_test = 0.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs indexed by runs_by_error
where workspace = :workspace
    and error is not null
    and error ->> '$.code' = :error_code
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
