-- Changes the status, the wake time and the keys of a run that no node owns and that has no journal. Its side rows exist
-- with the change or not at all.
-- Served by the primary keys of runs and audit, and journal_by_seq (run_id, seq).
with
held as (
    update runs
    set status = :after, wake_at = :wake_at, start = coalesce(:start::text::json, start)
    where id = :run
        and owner is null
        and status = :before
        and not exists (select from journal where run_id = :run)
    returning id
),
audited as (
    insert into audit (workspace, id, at, actor, action, target, details)
    select workspace, id, at, actor, action, target, details
    from unnest(
        :audit_workspaces::uuid[], :audit_ids::uuid[], :audit_at::bigint[], :audit_actors::text[],
        :audit_actions::text[], :audit_targets::text[], :audit_details::bytea[]
    ) as new (workspace, id, at, actor, action, target, details)
    where exists (select from held)
    order by workspace, id
    on conflict do nothing
)
select count(*)
from held
