-- The number of subscriptions of a workspace, counted to its quota.
-- Served by subscriptions_by_head (workspace, head, id), of which it reads at most :quota rows.
select count(*)
from (
    select 1
    from subscriptions
    where workspace = :workspace
    limit :quota
) as counted
