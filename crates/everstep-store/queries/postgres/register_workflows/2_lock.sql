-- Locks the workflows of these names, as put_workflow/1_lock does, until the transaction ends.
-- Ordered, so that two calls acquire their locks in the same order.
-- Needs no index.
select pg_advisory_xact_lock(key)
from (
    select distinct hashtextextended(workspace::text || name, 0) as key
    from unnest(:workspaces::uuid[], :names::text[]) as wanted (workspace, name)
    order by key
) as keys
