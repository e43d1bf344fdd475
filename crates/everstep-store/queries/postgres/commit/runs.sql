-- Writes the items of many runs of the node that start, continue, park and end, and neither open waits nor send or answer
-- inputs: the part of all.sql that these need. Setting up the rest of it would cost more than most of their rows.
-- The lines that begin with "rare:" belong to the statement only if an item has the place of a machine, or starts a run
-- with a trigger or for a later time.
-- Served by the primary keys of nodes, runs and waits, runs_keyed, journal_by_seq and journal_by_attempt.
with
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
started as (
    insert into runs (
        -- rare: state, version_no, trigger, start,
        id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
        tags, error, input, output
    )
    select
        -- rare: state, version_no, trigger::json, start::json,
        id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        scope, key, parent, retention_days, is_test, created_at,
        tags::json, error, input::json, output
    from unnest(
        -- rare: :new_states::text[], :new_version_nos::integer[], :new_triggers::text[], :new_starts::text[],
        :new_ids::uuid[], :new_owners::uuid[], :new_wake_at::bigint[], :new_ended_at::bigint[],
        :new_statuses::text[], :new_formats::integer[], :new_workspaces::uuid[], :new_workflows::text[],
        :new_versions::integer[], :new_lanes::text[], :new_scopes::text[], :new_keys::text[], :new_parents::uuid[],
        :new_retention_days::bigint[], :new_is_test::boolean[], :new_created_at::bigint[],
        :new_tags::text[], :new_errors::text[], :new_inputs::text[], :new_outputs::bytea[]
    ) as new (
        -- rare: state, version_no, trigger, start,
        id, owner, wake_at, ended_at,
        status, format, workspace, workflow,
        version, lane, scope, key, parent,
        retention_days, is_test, created_at,
        tags, error, input, output
    )
    where exists (select from member)
    on conflict do nothing
    returning id
),
head as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, commit, at, kind, step, attempt, codec, payload
    from unnest(
        :head_runs::uuid[], :head_is_unowned::boolean[], :head_seqs::bigint[], :head_commits::uuid[],
        :head_at::bigint[], :head_kinds::smallint[], :head_steps::text[], :head_attempts::integer[],
        :head_codecs::smallint[], :head_payloads::bytea[]
    ) as head (run, is_unowned, seq, commit, at, kind, step, attempt, codec, payload)
    where exists (select from member)
        and not is_unowned
        and (select owner = :node from runs where id = run)
    on conflict do nothing
    returning run_id
),
-- With "=", PostgreSQL would search the owner among all runs of the node.
projected as (
    update runs
    set
        -- rare: state = next.state, version_no = next.version_no,
        status = next.status,
        owner = next.owner,
        wake_at = next.wake_at,
        format = greatest(runs.format, next.format),
        output = next.output,
        error = next.error,
        ended_at = next.ended_at
    from unnest(
        -- rare: :next_states::text[], :next_version_nos::integer[],
        :next_runs::uuid[], :next_has_head::boolean[], :next_is_unowned::boolean[], :next_statuses::text[],
        :next_formats::integer[], :next_owners::uuid[], :next_wake_at::bigint[], :next_outputs::bytea[],
        :next_errors::text[], :next_ended_at::bigint[]
    ) as next (
        -- rare: state, version_no,
        run, has_head, is_unowned, status, format, owner, wake_at, output, error, ended_at
    )
    where runs.id = next.run
        and not is_unowned
        and runs.owner is not distinct from :node
        and case
            when has_head then run in (select run_id from head)
            else exists (select from member)
        end
    returning runs.id
),
opened as materialized (
    select id as run from started
    union all
    select run_id from head
    union all
    select id from projected
),
appended as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, commit, at, kind, step, attempt, codec, payload
    from unnest(
        :entry_runs::uuid[], :entry_seqs::bigint[], :entry_commits::uuid[], :entry_at::bigint[],
        :entry_kinds::smallint[], :entry_steps::text[], :entry_attempts::integer[],
        :entry_codecs::smallint[], :entry_payloads::bytea[]
    ) as entry (run, seq, commit, at, kind, step, attempt, codec, payload)
    where (run in (select run from opened)) is true
),
closed as (
    delete from waits
    using unnest(:closed_runs::uuid[], :closed_steps::text[]) as closed (run, step)
    where waits.run_id = closed.run
        and (closed.step is null or closed.step = waits.step)
        and (closed.run in (select run from opened)) is true
)
select
    exists (select from member),
    (select array_agg(run) from opened),
    null::bigint[],
    null::bigint[],
    null::uuid[]
