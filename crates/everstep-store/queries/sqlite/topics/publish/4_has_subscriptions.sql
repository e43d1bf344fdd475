-- Whether there is a subscription with a head, also a paused one.
-- Served by subscriptions_by_head (workspace, head, id).
select 1
from subscriptions
where workspace = :workspace
    and head = :head
limit 1
