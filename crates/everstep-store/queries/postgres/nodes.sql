-- All nodes, in the order in which they joined.
-- Reads the whole table: it has one row per node.
select id, lease_until, fenced, lease_until <= (extract(epoch from clock_timestamp()) * 1000000)::bigint, address
from nodes
order by id
