-- Registers a node. An id that was used before is rejected.
-- Served by the primary key of nodes.
insert into nodes (id, lease_until, address)
values (:node, :lease_until, :address)
