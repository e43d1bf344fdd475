-- Dead letters of a workspace with a status in a range of ids, newest first, without their configs.
-- Served by dead_letters_by_status (workspace, status, id), since the pairs give no other index a range.
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, null::bytea, null::bytea
from dead_letters
where workspace = :workspace
    and status = :status
    and (status, id) >= (:status, :from::uuid)
    and (status, id) < (:status, :to::uuid)
    and (:source::text is null or source = :source::text)
    and (:kind::text is null or kind = :kind::text)
    and (:workflow::text is null or workflow = :workflow::text)
    and (:error::text is null or error = :error::text)
order by id desc
limit :limit
