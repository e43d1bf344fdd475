-- At most :limit runs of a workspace with one of the chosen statuses, none of which is completed, before a position,
-- newest first. Test runs are left out.
-- Served by runs_by_status (workspace, status, created_at, id) where status not in (…) and is_test = 0, runs_running
-- (workspace, created_at, id) where status = 'running' and is_test = 0, a part for each status, merged, and the row ids.
-- The outer loop of the join determines the order.
select
    runs.id, workflow, version, status, wake_at, error, tags, runs.created_at, ended_at, parent, origin,
    state, version_no, input, idempotency_key, trigger
from (
    select created_at, id, rowid as place
    from runs indexed by runs_by_status
    where workspace = :workspace
        and status = 'pending'
        and status not in ('running', 'completed')
        and :pending
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, id, rowid as place
    from runs indexed by runs_running
    where workspace = :workspace
        and status = 'running'
        and :running
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, id, rowid as place
    from runs indexed by runs_by_status
    where workspace = :workspace
        and status = 'waiting'
        and status not in ('running', 'completed')
        and :waiting
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, id, rowid as place
    from runs indexed by runs_by_status
    where workspace = :workspace
        and status = 'paused'
        and status not in ('running', 'completed')
        and :paused
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, id, rowid as place
    from runs indexed by runs_by_status
    where workspace = :workspace
        and status = 'failed'
        and status not in ('running', 'completed')
        and :failed
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    union all
    select created_at, id, rowid as place
    from runs indexed by runs_by_status
    where workspace = :workspace
        and status = 'cancelled'
        and status not in ('running', 'completed')
        and :cancelled
        and is_test = 0
        and (created_at, id) < (:before, :before_id)
        and created_at >= :since
    order by 1 desc, 2 desc
    limit :limit
) as found
cross join runs on runs.rowid = found.place
