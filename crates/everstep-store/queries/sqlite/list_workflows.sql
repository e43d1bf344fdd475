-- At most :limit workflows after a name, by name, with their latest version and the active one. Deleted ones are left out.
-- Served by the primary keys of workflows (workspace, name, version), which it searches once per name and once
-- per latest version, workflow_heads and deleted_workflows. Names are found in their order, up to the limit.
with recursive named (name) as (
    select min(name)
    from workflows
    where workspace = :workspace
        and name > :after
    union all
    select (
        select min(workflows.name)
        from workflows
        where workflows.workspace = :workspace
            and workflows.name > named.name
    )
    from named
    where named.name is not null
)
select
    latest.name,
    latest.style,
    coalesce(
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = latest.name
        ),
        0
    ),
    latest.version,
    latest.created_at
from named
cross join workflows as latest
where latest.workspace = :workspace
    and latest.name = named.name
    and latest.version = (
        select max(version)
        from workflows
        where workspace = :workspace
            and name = named.name
    )
    and latest.version > coalesce(
        (
            select version
            from deleted_workflows
            where workspace = :workspace
                and name = named.name
        ),
        0
    )
limit :limit
