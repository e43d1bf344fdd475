-- Fences a node that leaves, when no commit of it is in flight.
-- Served by the primary key of nodes.
-- The lock is stronger than the update's own, and waits for commits.
with leaving as materialized (
    select id
    from nodes
    where id = :node
    for update
)
update nodes
set fenced = true
from leaving
where nodes.id = leaving.id
