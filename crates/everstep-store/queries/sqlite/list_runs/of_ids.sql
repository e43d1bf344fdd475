-- At most :limit runs of a workspace with ids in a range, before a position, newest first. Test runs are left out.
-- Served by the primary key of runs; the range is that of a minute or less.
select
    id, workflow, version, status, wake_at, error, tags, created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from runs
where id between :first_id and :final_id
    and workspace = :workspace
    and is_test = 0
    and (created_at, id) < (:before, :before_id)
    and created_at >= :since
order by created_at desc, id desc
limit :limit
