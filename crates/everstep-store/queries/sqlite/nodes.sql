-- All nodes, in the order in which they joined.
-- Reads the whole table: it has one row per node.
select id, lease_until, fenced, address
from nodes
order by id
