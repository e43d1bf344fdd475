-- The number of workflows of a workspace that were not deleted, and the number of names that were read, at most :names.
-- A loose index scan: served by the primary key of workflows (workspace, name, version), with one search per name, and
-- by that of deleted_workflows (workspace, name).
with recursive names (name, place) as (
    (
        select name, 1::bigint
        from workflows
        where workspace = :workspace
        order by name
        limit 1
    )
    union all
    select next.name, names.place + 1
    from names
    cross join lateral (
        select workflows.name
        from workflows
        where workflows.workspace = :workspace
            and workflows.name > names.name
        order by workflows.name
        limit 1
    ) as next
    where names.place < :names
)
select
    count(*) filter (
        where exists (
            select 1
            from workflows
            where workflows.workspace = :workspace
                and workflows.name = names.name
                and workflows.version > coalesce(
                    (
                        select deleted_workflows.version
                        from deleted_workflows
                        where deleted_workflows.workspace = :workspace
                            and deleted_workflows.name = names.name
                    ),
                    0
                )
        )
    ),
    count(*)
from names
