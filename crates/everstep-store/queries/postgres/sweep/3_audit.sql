-- Deletes at most :limit rows of the audit with ids before :before. Returns their number.
-- Served by the primary key of audit (workspace, id), which is searched once per workspace.
with
old as materialized (
    select entry.workspace, entry.id
    from workspaces
    cross join lateral (
        select workspace, id
        from audit
        where audit.workspace = workspaces.id
            and audit.id < :before
        order by id
        limit :limit
        for update skip locked
    ) as entry
    limit :limit
),
deleted as (
    delete from audit
    using old
    where audit.workspace = old.workspace
        and audit.id = old.id
    returning audit.id
)
select count(*)
from deleted
