-- A subscription.
-- Served by the primary key of subscriptions (id, workspace).
select workspace, id, pattern, filter, target, input, origin, paused_at, created_at
from subscriptions
where workspace = :workspace
    and id = :id
