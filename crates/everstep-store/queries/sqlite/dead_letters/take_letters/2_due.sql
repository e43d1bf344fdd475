-- Dead letters whose notice is to be sent, oldest first, without their configs: those whose notice no node has taken, this
-- node, or a node that is fenced.
-- Served by dead_letters_to_notify (id) where is_notice_due = 1, and the primary key of nodes.
select
    workspace, id, created_at, changed_at, notified_at, run_id, history, event, subscription, taken_by, status, source,
    kind, workflow, step, delivery, target, reason, secrets, attempts, null, null
from dead_letters indexed by dead_letters_to_notify
where is_notice_due = 1
    and id >= :since
    and source in ('delivery', 'start')
    and (
        notice_by is null
        or notice_by = :node
        or not exists (select 1 from nodes where nodes.id = notice_by and nodes.fenced = 0)
    )
order by id
