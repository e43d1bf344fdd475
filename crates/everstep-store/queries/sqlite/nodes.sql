-- All nodes, in the order in which they joined; leases that end by :clock have expired.
-- Reads the whole table: it has one row per node.
select id, lease_until, fenced, lease_until <= :clock, address
from nodes
order by id
