-- Subscriptions with a head that are not paused, by id.
-- Served by subscriptions_by_head (workspace, head, id).
select workspace, id, pattern, filter, target, input, origin, paused_at, created_at
from subscriptions
where workspace = :workspace
    and head = :head
    and id > :after
    and paused_at is null
order by id
limit :limit
