-- The stored state of a version before it is registered: the newest version of the workflow that has a
-- definition, the style of its newest version, the retention and the digest of this version, if it exists, and the
-- newest version that was deleted. Deleted versions do not exist here.
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
    this.digest,
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
