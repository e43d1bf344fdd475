-- Registers a node. An id that was used before is rejected.
-- Served by the primary key of nodes.
insert into nodes (id, lease_until, address)
values (:node, (extract(epoch from clock_timestamp()) * 1000000)::bigint + :lease, :address)
returning lease_until - :lease
