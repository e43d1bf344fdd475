-- One version of a workflow; a null :version means the active one.
-- Served by the primary keys of workflows (workspace, name, version) and workflow_heads (workspace, name).
select workspace, name, version, style, definition, digest, retention_days, created_at, publisher, permissions
from workflows
where workspace = :workspace
    and name = :name
    and version = coalesce(
        :version,
        (
            select version
            from workflow_heads
            where workspace = :workspace
                and name = :name
        )
    )
