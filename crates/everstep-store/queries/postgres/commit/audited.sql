-- The part of a commit that writes the audit rows of its items. It is added to runs.sql or to all.sql, before the final
-- select, only if an item has such rows. A row is joined to the gates of its items: it exists with one of them or not
-- at all, and a row that exists does not change. Served by the primary key of audit (workspace, id).
audited as (
    insert into audit (workspace, id, at, actor, action, target, details)
    select workspace, id, at, actor, action, target, details
    from unnest(
        :audit_workspaces::uuid[], :audit_ids::uuid[], :audit_at::bigint[], :audit_actors::text[],
        :audit_actions::text[], :audit_targets::text[], :audit_details::bytea[]
    ) as new (workspace, id, at, actor, action, target, details)
    where (
            id in (
                select joined.id
                from unnest(:audited_runs::uuid[], :audited_ids::uuid[]) as joined (run, id)
                where (joined.run in (select run from opened)) is true
            )
        ) is true
    order by workspace, id
    on conflict do nothing
)
