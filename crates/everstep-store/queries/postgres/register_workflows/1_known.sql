-- The stored state of versions before they are registered, in their order: the newest version of the
-- workflow that has a definition, the style of its newest version, the retention and the digest of this version,
-- if it exists, and the newest version that was deleted. Deleted versions do not exist here.
-- Served by the primary keys of workflows (workspace, name, version) and deleted_workflows.
select
    coalesce(brought.version, 0),
    newest.style,
    this.retention_days,
    this.digest,
    coalesce(deleted_workflows.version, 0)
from unnest(:workspaces::uuid[], :names::text[], :versions::integer[]) with ordinality
    as wanted (workspace, name, version, place)
left join deleted_workflows
    on deleted_workflows.workspace = wanted.workspace
    and deleted_workflows.name = wanted.name
left join workflows as this
    on this.workspace = wanted.workspace
    and this.name = wanted.name
    and this.version = wanted.version
    and this.version > coalesce(deleted_workflows.version, 0)
left join lateral (
    select style
    from workflows
    where workspace = wanted.workspace
        and name = wanted.name
        and version > coalesce(deleted_workflows.version, 0)
    order by version desc
    limit 1
) as newest on true
left join lateral (
    select version
    from workflows
    where workspace = wanted.workspace
        and name = wanted.name
        and version > coalesce(deleted_workflows.version, 0)
        and digest <> ''
    order by version desc
    limit 1
) as brought on true
order by wanted.place
