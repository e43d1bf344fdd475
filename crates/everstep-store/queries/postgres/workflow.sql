-- One version of a workflow, with the search attributes of the workflow, and whether the version was deleted; a null
-- :version means the active one.
-- Served by the primary keys of workflows (workspace, name, version), workflow_heads (workspace, name),
-- search_attributes (workspace, workflow, path) and deleted_workflows (workspace, name).
select
    workspace, name, version, style, definition, digest, retention_days, created_at, publisher, permissions,
    (
        select array_agg(path order by path)
        from search_attributes
        where search_attributes.workspace = :workspace
            and search_attributes.workflow = :name
    ),
    version <= coalesce(
        (
            select deleted_workflows.version
            from deleted_workflows
            where deleted_workflows.workspace = :workspace
                and deleted_workflows.name = :name
        ),
        0
    )
from workflows
where workspace = :workspace
    and name = :name
    and version = coalesce(
        :version,
        (
            select workflow_heads.version
            from workflow_heads
            where workspace = :workspace
                and name = :name
        )
    )
