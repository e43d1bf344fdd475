-- Subscriptions with a pattern, by id.
-- Served by subscriptions_by_head (workspace, head, id).
select workspace, id, pattern, filter, target, input, origin, paused_at, created_at
from subscriptions
where workspace = :workspace
    and head = :head
    and id > :after
    and pattern = :pattern
order by id
limit :limit
