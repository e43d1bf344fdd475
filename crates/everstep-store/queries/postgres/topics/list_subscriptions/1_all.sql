-- Subscriptions of a workspace, by id.
-- Served by subscriptions_listed (workspace, id).
select workspace, id, pattern, filter, target, input, origin, paused_at, created_at
from subscriptions
where workspace = :workspace
    and id > :after
order by id
limit :limit
