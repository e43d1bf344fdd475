-- At most :limit workflows after a name, by name, with their latest version and the active one. Deleted ones are left out.
-- Served by the primary keys of workflows (workspace, name, version), which it searches once per name and once
-- per latest version, workflow_heads and deleted_workflows. Names are found in their order, up to the limit.
with recursive named (name) as (
    (
        select name
        from workflows
        where workspace = :workspace
            and name > :after
        order by name
        limit 1
    )
    union all
    select (
        select workflows.name
        from workflows
        where workflows.workspace = :workspace
            and workflows.name > named.name
        order by workflows.name
        limit 1
    )
    from named
    where named.name is not null
)
select
    named.name,
    latest.style,
    coalesce(
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = named.name
        ),
        0
    ),
    latest.version,
    latest.created_at
from named
cross join lateral (
    select style, version, created_at
    from workflows
    where workspace = :workspace
        and name = named.name
    order by version desc
    limit 1
) as latest
where latest.version > coalesce(
    (
        select version
        from deleted_workflows
        where workspace = :workspace
            and name = named.name
    ),
    0
)
limit :limit
