-- The subscriptions that a workflow declares.
-- Served by subscriptions_of_workflows (workspace, origin) where origin is not null.
select workspace, id, pattern, filter, target, input, origin, paused_at, created_at
from subscriptions
where workspace = :workspace
    and origin = :name
order by id
