-- Writes the items of many runs in one transaction: each completely, or not at all if its gate rejects it.
-- Served by the primary keys of nodes, runs, inbox and waits, runs_keyed, journal_by_seq and journal_by_attempt.
-- All parts see the snapshot at the beginning of the statement; a part passes its results on by returning them.
-- The arrays are in the order of their locks. "(… in (…)) is true" is looked up in a hash table, for any plan;
-- a bare "in" would be a join, whose plan depends on guesses about arrays.
-- The lines that begin with "rare:" belong to the statement only if an item has the place of a machine, or starts a run
-- with a trigger or for a later time.
with
-- 1. The node may write until this transaction ends: a fence waits for the lock, a renewal does not.
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
-- The inbox rows that an item answers must exist, and are locked.
present as materialized (
    select id, run_id
    from inbox
    where id = any(:taken::bigint[])
        and exists (select from member)
    order by id
    for update
),
gone as materialized (
    select taken.run
    from unnest(:taken::bigint[], :taken_runs::uuid[]) as taken (id, run)
    where ((taken.id, taken.run) in (select id, run_id from present)) is not true
),
-- 2. The rows of new runs are inserted, as their items leave them.
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
        and (id in (select run from gone)) is not true
    on conflict do nothing
    returning id
),
-- 3. Unowned runs are locked, and then checked again.
unowned as materialized (
    select id
    from runs
    where id = any(:unowned::uuid[])
        and owner is null
        and exists (select from member)
    order by id
    for update
),
-- The first entry of an item is its gate. Only a fence takes a run from its owner, so that owner is only read.
head as (
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    select run, seq, :node, commit, at, kind, step, attempt, codec, payload
    from unnest(
        :head_runs::uuid[], :head_is_unowned::boolean[], :head_seqs::bigint[], :head_commits::uuid[],
        :head_at::bigint[], :head_kinds::smallint[], :head_steps::text[], :head_attempts::integer[],
        :head_codecs::smallint[], :head_payloads::bytea[]
    ) as head (run, is_unowned, seq, commit, at, kind, step, attempt, codec, payload)
    where exists (select from member)
        and case
            when is_unowned then run in (select id from unowned)
            else (select owner = :node from runs where id = run)
        end
        and (run in (select run from gone)) is not true
    on conflict do nothing
    returning run_id
),
-- An item without entries has its run's row as gate.
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
        and runs.owner is not distinct from case when not is_unowned then :node end
        and case
            when has_head then run in (select run_id from head)
            else exists (select from member) and (run in (select run from gone)) is not true
        end
    returning runs.id
),
-- The same holds for an item that does not change that row.
checked as materialized (
    select run
    from unnest(:bare_runs::uuid[], :bare_is_unowned::boolean[]) as bare (run, is_unowned)
    where exists (select from member)
        and case
            when is_unowned then run in (select id from unowned)
            else (select owner = :node from runs where id = run)
        end
        and (run in (select run from gone)) is not true
),
opened as materialized (
    select id as run from started
    union all
    select run_id from head
    union all
    select id from projected
    union all
    select run from checked
),
-- 4. The rest follows its gate. A seq that exists is an error, and the item a conflict.
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
    returning waits.run_id
),
-- A step may wait again: closed waits are deleted first.
waiting as (
    insert into waits (
        run_id, step, workspace, event, deadline, pattern, kind, by_topic, shape, shape_hash, match_hash
    )
    select run, step, workspace, event, deadline, pattern, kind, by_topic, shape, shape_hash, match_hash
    from unnest(
        :wait_runs::uuid[], :wait_steps::text[], :wait_workspaces::uuid[], :wait_events::text[],
        :wait_deadlines::bigint[], :wait_patterns::bytea[], :wait_kinds::text[], :wait_by_topic::boolean[],
        :wait_shapes::text[], :wait_shape_hashes::bigint[], :wait_match_hashes::bigint[]
    ) as wait (
        run, step, workspace, event, deadline, pattern, kind, by_topic, shape, shape_hash, match_hash
    )
    where (run in (select run from opened)) is true
        and (select count(*) from closed) >= 0
),
answered as (
    delete from inbox
    using unnest(:taken::bigint[], :taken_runs::uuid[]) as taken (id, run)
    where inbox.id = taken.id
        and (taken.run in (select run from opened)) is true
),
-- A run that has ended gets no inputs; one that is missing may be about to start.
inbox_input as materialized (
    select nextval('inbox_ids') as id, written.*
    from (
        select
            inbox_input.place,
            inbox_input.receiver,
            runs.owner,
            coalesce(runs.workspace, inbox_input.workspace) as workspace,
            coalesce(inbox_input.at, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as at,
            inbox_input.input
        from unnest(
            :input_senders::uuid[], :input_receivers::uuid[], :input_workspaces::uuid[], :input_at::bigint[],
            :input_inputs::bytea[]
        ) with ordinality as inbox_input (sender, receiver, workspace, at, input, place)
        left join runs on runs.id = inbox_input.receiver
        where (inbox_input.sender in (select run from opened)) is true
            and runs.ended_at is null
        order by inbox_input.place
    ) as written
),
sent as (
    insert into inbox (id, run_id, workspace, created_at, input)
    select id, receiver, workspace, at, input
    from inbox_input
)
select
    exists (select from member),
    (select array_agg(run) from opened),
    (select array_agg(place order by place) from inbox_input),
    (select array_agg(id order by place) from inbox_input),
    (select array_agg(owner order by place) from inbox_input)
