-- Waits until nobody else changes a workflow of these names, as put_workflow/1_lock does. Ends with the transaction.
-- Ordered, so that two who take several locks take them in the same order.
-- Needs no index.
select pg_advisory_xact_lock(key)
from (
    select distinct hashtextextended(workspace::text || name, 0) as key
    from unnest(:workspaces::uuid[], :names::text[]) as wanted (workspace, name)
    order by key
) as keys
