-- At most :limit versions of a workflow before a version, newest first, and whether each is the active one.
-- Deleted ones are left out.
-- Served by the primary keys of workflows (workspace, name, version), workflow_heads and deleted_workflows.
select
    version,
    digest,
    created_at,
    retention_days,
    version = coalesce(
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = :name
        ),
        0
    )
from workflows
where workspace = :workspace
    and name = :name
    and version < :before
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
limit :limit
