-- The state of a workflow before it is changed: its newest version that was not deleted, the active one, and whether
-- all its versions were only named by starts.
-- Served by the primary keys of workflows (workspace, name, version), deleted_workflows and workflow_heads.
select
    version,
    digest,
    coalesce(
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = :name
        ),
        0
    ) as active,
    style,
    not exists (
        select 1
        from workflows as registered
        where registered.workspace = :workspace
            and registered.name = :name
            and registered.version > coalesce(
                (
                    select version
                    from deleted_workflows
                    where workspace = :workspace
                        and name = :name
                ),
                0
            )
            and registered.digest <> ''
    ) as is_only_named,
    permissions
from workflows
where workspace = :workspace
    and name = :name
    and version > coalesce(
        (
            select version
            from deleted_workflows
            where workspace = :workspace
                and name = :name
        ),
        0
    )
order by version desc
limit 1
