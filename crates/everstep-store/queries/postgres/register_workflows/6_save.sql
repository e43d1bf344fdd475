-- Saves a version under its own number, or changes its retention and its definition, and makes it the active one when
-- :activate, unless a later one is. A version that is only named has no digest and changes no definition.
-- Served by the primary keys of workflows (workspace, name, version) and workflow_heads (workspace, name).
with
saved as (
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    values (:workspace, :name, :version, :style, :definition, :digest, :retention_days, :created_at)
    on conflict (workspace, name, version) do update
    set retention_days = excluded.retention_days,
        definition = case excluded.digest when '' then workflows.definition else excluded.definition end,
        digest = case excluded.digest when '' then workflows.digest else excluded.digest end
)
insert into workflow_heads (workspace, name, version)
select :workspace, :name, :version
where :activate
on conflict (workspace, name) do update
set version = excluded.version
where workflow_heads.version < excluded.version
