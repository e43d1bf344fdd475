-- Extends a node's lease, also an expired one, unless the node is fenced.
-- Served by the primary key of nodes.
update nodes
set lease_until = :lease_until
where id = :node
    and fenced = 0
