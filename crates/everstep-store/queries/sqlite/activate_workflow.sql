-- Makes a version the one that new runs use, if it exists and was not deleted.
-- Served by the primary keys of workflows (workspace, name, version), deleted_workflows and workflow_heads.
insert into workflow_heads (workspace, name, version)
select workspace, name, version
from workflows
where workspace = :workspace
    and name = :name
    and version = :version
    and version > coalesce(
        (
            select version
            from deleted_workflows
            where workspace = :workspace
                and name = :name
        ),
        0
    )
on conflict (workspace, name) do update
set version = excluded.version
