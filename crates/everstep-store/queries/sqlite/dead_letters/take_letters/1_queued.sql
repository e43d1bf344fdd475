-- Queued dead letters in the order in which they were queued: those that no node has taken, this node, or a node that
-- is fenced.
-- Served by dead_letters_by_change (status, changed_at, id) and the primary key of nodes.
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, written, config
from dead_letters indexed by dead_letters_by_change
where status = 'queued'
    and source in ('delivery', 'start')
    and (
        taken_by is null
        or taken_by = :node
        or not exists (select 1 from nodes where nodes.id = taken_by and nodes.fenced = 0)
    )
order by changed_at, id
