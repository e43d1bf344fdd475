-- All nodes, in the order in which they joined; :clock tells which leases are over.
-- Reads the whole table: it has one row per node.
select id, lease_until, fenced, lease_until <= :clock, address
from nodes
order by id
