-- Subscriptions with one of the heads that are not paused, by id.
-- Served by subscriptions_by_head (workspace, head, id), which is searched once per head.
select
    found.workspace, found.id, found.pattern, found.filter, found.target, found.input, found.origin, found.paused_at,
    found.created_at
from unnest(:heads::text[]) as wanted (head)
cross join lateral (
    select *
    from subscriptions
    where subscriptions.workspace = :workspace
        and subscriptions.head = wanted.head
        and subscriptions.id > :after
        and subscriptions.paused_at is null
    order by subscriptions.id
    limit :limit
) as found
order by found.id
limit :limit
