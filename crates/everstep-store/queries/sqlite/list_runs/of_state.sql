-- At most :limit runs of one workflow that have not ended and are in one state of their machine, before a position,
-- newest first. Test runs are left out.
-- Served by runs_in_state (workspace, workflow, state, created_at, id) where state is not null and ended_at is null.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs indexed by runs_in_state
where workspace = :workspace
    and workflow = :workflow
    and state = :state
    and ended_at is null
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
