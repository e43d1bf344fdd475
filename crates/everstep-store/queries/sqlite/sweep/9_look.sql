-- Sets when a deleted workflow is looked at again; never, when its versions are gone.
-- Served by the primary key of deleted_workflows (workspace, name).
update deleted_workflows
set look_at = :look_at
where workspace = :workspace
    and name = :name
