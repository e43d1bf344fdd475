-- The number of workflows of a workspace that were not deleted, and the number of names that were read, at most :names.
-- A loose index scan: served by the primary key of workflows (workspace, name, version), with one search per name, and
-- by that of deleted_workflows (workspace, name).
with recursive names (name, place) as (
    select min(name), 1
    from workflows
    where workspace = :workspace
    union all
    select
        (
            select min(workflows.name)
            from workflows
            where workflows.workspace = :workspace
                and workflows.name > names.name
        ),
        names.place + 1
    from names
    where names.name is not null
        and names.place < :names
)
select
    coalesce(
        sum(
            exists (
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
        0
    ),
    count(*)
from names
where name is not null
