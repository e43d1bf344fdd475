-- Saves a version under its own number, or changes for how long its runs are kept, and makes :newest the active one
-- unless a later one is.
-- Served by the primary keys of workflows (workspace, name, version) and workflow_heads (workspace, name).
with
saved as (
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    values (:workspace, :name, :version, :style, :definition, :digest, :retention_days, :created_at)
    on conflict (workspace, name, version) do update
    set retention_days = excluded.retention_days
    where workflows.retention_days <> excluded.retention_days
)
insert into workflow_heads (workspace, name, version)
values (:workspace, :name, :newest)
on conflict (workspace, name) do update
set version = excluded.version
where workflow_heads.version < excluded.version
