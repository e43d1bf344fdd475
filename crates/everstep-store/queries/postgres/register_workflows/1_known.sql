-- What is known of versions that are to be registered, each in its place: the newest version of the workflow that
-- was not deleted, with its style; the active version; how long runs of this very version are kept, if it is there
-- and was not deleted; and the newest version that was deleted.
-- Served by the primary keys of workflows (workspace, name, version), workflow_heads and deleted_workflows.
select
    coalesce(newest.version, 0),
    newest.style,
    coalesce(workflow_heads.version, 0),
    workflows.retention_days,
    coalesce(deleted_workflows.version, 0)
from unnest(:workspaces::uuid[], :names::text[], :versions::integer[]) with ordinality
    as wanted (workspace, name, version, place)
left join deleted_workflows
    on deleted_workflows.workspace = wanted.workspace
    and deleted_workflows.name = wanted.name
left join workflow_heads
    on workflow_heads.workspace = wanted.workspace
    and workflow_heads.name = wanted.name
left join workflows
    on workflows.workspace = wanted.workspace
    and workflows.name = wanted.name
    and workflows.version = wanted.version
    and workflows.version > coalesce(deleted_workflows.version, 0)
left join lateral (
    select version, style
    from workflows
    where workspace = wanted.workspace
        and name = wanted.name
        and version > coalesce(deleted_workflows.version, 0)
    order by version desc
    limit 1
) as newest on true
order by wanted.place
