-- What is known of a version that is to be registered: the newest version of the workflow that was not deleted,
-- with its style; the active version; how long runs of this very version are kept, if it is there and was
-- not deleted; and the newest version that was deleted.
-- Served by the primary keys of workflows (workspace, name, version), workflow_heads and deleted_workflows.
select
    coalesce(newest.version, 0),
    newest.style,
    coalesce(
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = :name
        ),
        0
    ),
    (
        select retention_days
        from workflows
        where workspace = :workspace
            and name = :name
            and version = :version
            and version > deleted.version
    ),
    deleted.version
from (
    select coalesce(max(version), 0) as version
    from deleted_workflows
    where workspace = :workspace
        and name = :name
) as deleted
left join workflows as newest
    on newest.workspace = :workspace
    and newest.name = :name
    and newest.version = (
        select version
        from workflows
        where workspace = :workspace
            and name = :name
            and version > deleted.version
        order by version desc
        limit 1
    )
