-- Fences a node whose lease still ends at :seen and has expired, unless a commit of it is in flight.
-- Served by the primary key of nodes.
-- The lock is stronger than the update's own, so that it conflicts with that of commits.
with expired as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
        and lease_until = :seen
        and lease_until <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
    for update skip locked
)
update nodes
set fenced = true
from expired
where nodes.id = expired.id
