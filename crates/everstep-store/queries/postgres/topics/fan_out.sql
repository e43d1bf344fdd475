-- Writes slices of the fan-out of events: each completely, or not at all if its gate is closed.
-- Served by the primary keys of nodes, events (id, workspace), runs and inbox, and runs_keyed.
-- All parts see the snapshot at the beginning of the statement; a part passes its results on by returning them.
with
-- 1. The node may write until this transaction ends: a fence waits for the lock, a renewal does not.
member as materialized (
    select id
    from nodes
    where id = :node
        and not fenced
    for key share
),
-- 2. The row of an event is the gate of its slice. A second statement with the same position waits for the lock, and
-- then finds another position.
gate as (
    update events
    set
        cursor = coalesce(slice.next, events.cursor),
        fanned_at = slice.fanned_at,
        slices = events.slices + 1,
        matched_workflows = events.matched_workflows + slice.workflows,
        matched_waits = events.matched_waits + slice.waits,
        failed = events.failed + slice.failed
    from unnest(
        :workspaces::uuid[], :events::uuid[], :seen::text[], :next::text[], :fanned_at::bigint[],
        :workflows::bigint[], :waits::bigint[], :failed::bigint[]
    ) as slice (workspace, event, seen, next, fanned_at, workflows, waits, failed)
    where events.id = slice.event
        and events.workspace = slice.workspace
        and events.cursor = slice.seen
        and events.fanned_at is null
        and exists (select from member)
    returning events.id, events.slices
),
-- 3. The rest follows its gate.
started as (
    insert into runs (
        id, owner, wake_at, status, format, workspace, workflow, version, lane, idempotency_scope, idempotency_key,
        parent, retention_days, is_test, created_at, tags, input, trigger, start
    )
    select
        id, owner, wake_at, 'pending', format, workspace, workflow, version, lane, scope, key,
        parent, retention_days, is_test, created_at, tags::json, input::json, trigger::json, start::json
    from unnest(
        :new_events::uuid[], :new_ids::uuid[], :new_owners::uuid[], :new_wake_at::bigint[], :new_formats::integer[],
        :new_workspaces::uuid[], :new_workflows::text[], :new_versions::integer[], :new_lanes::text[],
        :new_scopes::text[], :new_keys::text[], :new_parents::uuid[], :new_retention_days::bigint[],
        :new_is_test::boolean[], :new_created_at::bigint[], :new_tags::text[], :new_inputs::text[],
        :new_triggers::text[], :new_starts::text[]
    ) as new (
        event, id, owner, wake_at, format, workspace, workflow, version, lane, scope, key, parent, retention_days,
        is_test, created_at, tags, input, trigger, start
    )
    where (event in (select gate.id from gate)) is true
    on conflict do nothing
    returning id
),
-- A run that has ended or is missing gets no inputs.
inbox_input as materialized (
    select nextval('inbox_ids') as id, written.*
    from (
        select input.place, input.receiver, runs.owner, runs.workspace, input.at, input.input
        from unnest(
            :input_events::uuid[], :input_receivers::uuid[], :input_at::bigint[], :input_inputs::bytea[]
        ) with ordinality as input (event, receiver, at, input, place)
        join runs on runs.id = input.receiver
        where (input.event in (select gate.id from gate)) is true
            and runs.ended_at is null
        order by input.place
    ) as written
),
sent as (
    insert into inbox (id, run_id, workspace, created_at, input)
    select id, receiver, workspace, at, input
    from inbox_input
),
reported as (
    insert into event_results (event, slice, workspace, codec, results)
    select result.event, gate.slices, result.workspace, result.codec, result.results
    from unnest(
        :result_events::uuid[], :result_workspaces::uuid[], :result_codecs::smallint[], :result_results::bytea[]
    ) as result (event, workspace, codec, results)
    join gate on gate.id = result.event
)
select
    exists (select from member),
    (select array_agg(id) from gate),
    (select array_agg(id) from started),
    (select array_agg(place order by place) from inbox_input),
    (select array_agg(id order by place) from inbox_input),
    (select array_agg(owner order by place) from inbox_input)
