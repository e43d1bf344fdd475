-- The newest version that a workflow had when it was deleted.
-- Served by the primary key of deleted_workflows (workspace, name).
select version
from deleted_workflows
where workspace = :workspace
    and name = :name
