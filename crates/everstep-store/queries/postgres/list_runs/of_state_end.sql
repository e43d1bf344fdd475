-- The position of the last of :look runs of one workflow that have not ended and are in one state of their machine,
-- before a position, if so many exist.
-- Served by runs_in_state (workspace, workflow, state, created_at, id) where state is not null and ended_at is null.
select created_at, id
from runs
where workspace = :workspace
    and not is_test
    and workflow = :workflow
    and state = :state
    and ended_at is null
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
offset :look - 1
limit 1
