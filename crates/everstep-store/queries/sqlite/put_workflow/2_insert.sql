-- Saves an immutable version.
-- Served by the primary key of workflows (workspace, name, version).
insert into workflows (
    workspace, name, version, style, definition, digest, retention_days, created_at, publisher, permissions
)
values (
    :workspace, :name, :version, :style, :definition, :digest, :retention_days, :created_at, :publisher, :permissions
)
