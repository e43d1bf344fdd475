-- Saves a version of a workflow, unless the newest has the same digest and the same permissions, and activates it
-- if :activate.
-- Served by the primary keys of workflows (workspace, name, version), workflow_heads and deleted_workflows.
-- If another node does not take the lock, one of two calls fails and is sent again; no earlier version becomes active.
with
newest as materialized (
    select version, digest, permissions
    from workflows
    where workspace = :workspace
        and name = :name
    order by version desc
    limit 1
),
deleted as materialized (
    select version
    from deleted_workflows
    where workspace = :workspace
        and name = :name
),
same as materialized (
    select version
    from newest
    where digest = :digest
        and coalesce(permissions, :default_permissions) = coalesce(:permissions, :default_permissions)
        and version > coalesce((select version from deleted), 0)
),
added as (
    insert into workflows (
        workspace, name, version, style, definition, digest, retention_days, created_at, publisher, permissions
    )
    select
        :workspace, :name, coalesce(greatest((select version from newest), (select version from deleted)), 0) + 1,
        :style, :definition, :digest, :retention_days, :created_at, :publisher, :permissions
    where not exists (select from same)
    returning version
),
saved as materialized (
    select version, true as is_new
    from added
    union all
    select version, false
    from same
),
activated as (
    insert into workflow_heads (workspace, name, version)
    select :workspace, :name, version
    from saved
    where :activate
    on conflict (workspace, name) do update
    set version = excluded.version
    where workflow_heads.version < excluded.version
)
select version, is_new
from saved
