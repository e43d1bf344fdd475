-- The newest version of a workflow that was not deleted.
-- Served by the primary keys of workflows (workspace, name, version) and deleted_workflows (workspace, name).
select version
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
