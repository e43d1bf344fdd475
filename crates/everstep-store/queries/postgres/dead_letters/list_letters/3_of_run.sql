-- Dead letters of a run in a range of ids, newest first, without their configs.
-- Served by dead_letters_of_runs (workspace, run_id, id) where run_id is not null.
-- The range is one of both columns, because a range of ids alone also fits the primary key: without statistics the planner
-- may prefer it, and read every dead letter of the workspace.
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, null::bytea, null::bytea
from dead_letters
where workspace = :workspace
    and run_id = :run
    and (run_id, id) >= (:run, :from)
    and (run_id, id) < (:run, :to)
    and (:status::text is null or status = :status::text)
    and (:source::text is null or source = :source::text)
    and (:kind::text is null or kind = :kind::text)
    and (:workflow::text is null or workflow = :workflow::text)
    and (:error::text is null or error = :error::text)
order by id desc
limit :limit
