-- Creates a copy of a run, as it was before its first step, with the entries up to the end of the item that contains
-- entry :at: unowned, running and due. An item's first entry names its proposal. No row if no such entry exists.
-- The first entry may get another payload.
-- Its side rows exist with it or not at all.
-- Served by the primary keys of runs and audit, and journal_by_seq (run_id, seq).
with
last as materialized (
    select coalesce(
        (
            select seq
            from journal
            where run_id = :source
                and seq > :at
                and commit_id is not null
            order by seq
            limit 1
        ) - 1,
        (
            select max(seq)
            from journal
            where run_id = :source
        )
    ) as seq
    from runs
    where id = :source
        and workspace = :workspace
        and exists (
            select
            from journal
            where run_id = :source
                and seq = :at
        )
),
forked as (
    insert into runs (
        id, wake_at, status, format, workspace, workflow, version, lane,
        retention_days, is_test, created_at, origin, tags, input
    )
    select
        :run, :now, 'running', format, workspace, workflow, version, lane,
        retention_days, is_test, :now, id, tags, input
    from runs
    where id = :source
        and exists (select from last)
),
copied as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select
        :run, seq, writer, commit_id, at, kind, step, attempt,
        case seq when 1 then coalesce(:first_codec::smallint, codec) else codec end,
        case seq when 1 then coalesce(:first_payload::bytea, payload) else payload end
    from journal
    where run_id = :source
        and seq <= (select seq from last)
    order by seq
),
indexed as (
    insert into run_terms (run, workspace, created_at, workflow, path, value)
    select run, workspace, created_at, workflow, path, value
    from unnest(
        :term_runs::uuid[], :term_workspaces::uuid[], :term_created_at::bigint[], :term_workflows::text[],
        :term_paths::text[], :term_values::text[]
    ) as new (run, workspace, created_at, workflow, path, value)
    where exists (select from last)
),
audited as (
    insert into audit (workspace, id, at, actor, action, target, details)
    select workspace, id, at, actor, action, target, details
    from unnest(
        :audit_workspaces::uuid[], :audit_ids::uuid[], :audit_at::bigint[], :audit_actors::text[],
        :audit_actions::text[], :audit_targets::text[], :audit_details::bytea[]
    ) as new (workspace, id, at, actor, action, target, details)
    where exists (select from last)
    order by workspace, id
    on conflict do nothing
)
select seq
from last
