-- At most :limit runs of a workspace that a trigger with an id has started, before a position, newest first. Test runs are
-- left out.
-- Served by runs_by_trigger (workspace, trigger ->> '$.id', created_at, id) where trigger is not null.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs indexed by runs_by_trigger
where workspace = :workspace
    and trigger is not null
    and trigger ->> '$.id' = :trigger
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
