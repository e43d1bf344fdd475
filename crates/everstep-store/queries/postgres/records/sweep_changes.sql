-- Deletes at most :limit changes whose time has passed. Those of a run that exists are postponed until :later.
-- Returns the number of both.
-- Served by store_changes_expiring (expires_at) and the primary keys of store_changes and runs.
with
due as materialized (
    select
        workspace, namespace, change,
        -- A scalar subquery: `exists` may be planned as a hash of all runs.
        coalesce(
            (
                select true
                from runs
                where runs.id = store_changes.run_id
            ),
            false
        ) as has_run
    from store_changes
    where expires_at <= :now
    order by expires_at
    limit :limit
    for update skip locked
),
postponed as (
    update store_changes
    set expires_at = :later
    from due
    where due.has_run
        and store_changes.workspace = due.workspace
        and store_changes.namespace = due.namespace
        and store_changes.change = due.change
),
deleted as (
    delete from store_changes
    using due
    where not due.has_run
        and store_changes.workspace = due.workspace
        and store_changes.namespace = due.namespace
        and store_changes.change = due.change
)
select count(*)
from due
