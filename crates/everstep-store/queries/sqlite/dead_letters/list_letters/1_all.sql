-- Dead letters of a workspace in a range of ids, newest first, without their configs.
-- Served by the primary key of dead_letters (workspace, id).
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, null, null
from dead_letters
where workspace = :workspace
    and id >= :from
    and id < :to
    and (:source is null or source = :source)
    and (:kind is null or kind = :kind)
    and (:workflow is null or workflow = :workflow)
    and (:error is null or error = :error)
order by id desc
limit :limit
