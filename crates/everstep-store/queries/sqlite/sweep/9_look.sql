-- Sets when a deleted workflow is checked again; null if its versions are deleted.
-- Served by the primary key of deleted_workflows (workspace, name).
update deleted_workflows
set look_at = :look_at
where workspace = :workspace
    and name = :name
