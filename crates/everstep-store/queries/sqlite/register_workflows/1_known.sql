-- What is known of a version that is to be registered: the newest version of the workflow that somebody has brought,
-- the style of its newest version, how long runs of this very version are kept and whether it was brought, if it is
-- there, and the newest version that was deleted. Deleted versions are not there.
-- Served by the primary keys of workflows (workspace, name, version) and deleted_workflows.
select
    coalesce(
        (
            select version
            from workflows
            where workspace = :workspace
                and name = :name
                and version > deleted.version
                and digest <> ''
            order by version desc
            limit 1
        ),
        0
    ),
    (
        select style
        from workflows
        where workspace = :workspace
            and name = :name
            and version > deleted.version
        order by version desc
        limit 1
    ),
    this.retention_days,
    coalesce(this.digest <> '', 0),
    deleted.version
from (
    select coalesce(max(version), 0) as version
    from deleted_workflows
    where workspace = :workspace
        and name = :name
) as deleted
left join workflows as this
    on this.workspace = :workspace
    and this.name = :name
    and this.version = :version
    and this.version > deleted.version
