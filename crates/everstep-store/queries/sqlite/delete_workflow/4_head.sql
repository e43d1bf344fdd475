-- Removes the active version of a workflow.
-- Served by the primary key of workflow_heads (workspace, name).
delete from workflow_heads
where workspace = :workspace
    and name = :name
