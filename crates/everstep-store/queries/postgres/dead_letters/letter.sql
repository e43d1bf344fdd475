-- A dead letter.
-- Served by the primary key of dead_letters (workspace, id).
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, written, config
from dead_letters
where workspace = :workspace
    and id = :id
