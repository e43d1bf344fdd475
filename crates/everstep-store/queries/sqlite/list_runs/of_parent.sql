-- At most :limit children of a run before a position, newest first. Test runs are left out.
-- Served by runs_by_parent (parent, created_at, id) where parent is not null.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs indexed by runs_by_parent
where workspace = :workspace
    and parent = :parent
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
