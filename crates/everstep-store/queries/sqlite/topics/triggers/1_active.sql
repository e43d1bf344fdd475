-- The definition of the active version of a workflow.
-- Served by the primary keys of workflow_heads (workspace, name) and workflows (workspace, name, version).
select workflows.definition
from workflow_heads
cross join workflows
    on workflows.workspace = workflow_heads.workspace
    and workflows.name = workflow_heads.name
    and workflows.version = workflow_heads.version
where workflow_heads.workspace = :workspace
    and workflow_heads.name = :name
