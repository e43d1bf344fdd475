-- Fences a node that leaves.
-- Served by the primary key of nodes.
update nodes
set fenced = 1
where id = :node
