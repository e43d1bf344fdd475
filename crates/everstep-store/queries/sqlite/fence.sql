-- Fences a node whose lease still ends at :seen and has expired.
-- Served by the primary key of nodes.
update nodes
set fenced = 1
where id = :node
    and fenced = 0
    and lease_until = :seen
    and lease_until <= :clock
