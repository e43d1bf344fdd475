-- What a workflow is like before it is changed: its newest version that was not deleted, and the active one.
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
    style
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
