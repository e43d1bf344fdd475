-- Saves a version of a workflow, unless the newest has the same digest, and makes it the active one when :activate.
-- Served by the primary keys of workflows (workspace, name, version) and workflow_heads (workspace, name).
-- Of two at once one is refused, and sent again.
with
newest as materialized (
    select version, digest
    from workflows
    where workspace = :workspace
        and name = :name
    order by version desc
    limit 1
),
added as (
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    select
        :workspace, :name, coalesce((select version from newest), 0) + 1, :style, :definition, :digest,
        :retention_days, :created_at
    where not exists (
        select
        from newest
        where digest = :digest
    )
    returning version
),
saved as materialized (
    select version, true as is_new
    from added
    union all
    select version, false
    from newest
    where digest = :digest
),
activated as (
    insert into workflow_heads (workspace, name, version)
    select :workspace, :name, version
    from saved
    where :activate
    on conflict (workspace, name) do update
    set version = excluded.version
)
select version, is_new
from saved
