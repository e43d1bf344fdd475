-- Leaves no version of a workflow active: a start must name one.
-- Served by the primary key of workflow_heads (workspace, name).
delete from workflow_heads
where workspace = :workspace
    and name = :name
