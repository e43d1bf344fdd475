-- Records that only the versions before :version were deleted.
-- Served by the primary key of deleted_workflows (workspace, name).
update deleted_workflows
set version = :version - 1
where workspace = :workspace
    and name = :name
    and version >= :version
