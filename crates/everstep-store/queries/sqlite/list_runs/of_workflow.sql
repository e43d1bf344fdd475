-- At most :limit runs of one workflow before a position, newest first. Test runs are left out.
-- Served by runs_listed_by_workflow (workspace, workflow, created_at, id) where is_test = 0.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs indexed by runs_listed_by_workflow
where workspace = :workspace
    and workflow = :workflow
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
