-- Writes the records and changes of a batch of ops, each joined to the gate of its namespace. A gate is open if the
-- namespace has as many changes as when the batch was read, or is new; its row is then locked until the commit, which
-- follows at once. Nothing is written to a namespace whose gate is closed. Returns the open gates.
-- New gates come before known ones, and both in the order of their keys, so that two batches never deadlock.
-- Served by the primary keys of store_namespaces, records and store_changes, and by store_changes_by_op.
with
created as (
    insert into store_namespaces (workspace, name, changes, keys, links, bytes, updated_at)
    select workspace, name, changes, keys, links, bytes, :now
    from unnest(
        :gate_workspaces::uuid[], :gate_names::text[], :gate_seen::bigint[], :gate_changes::bigint[],
        :gate_keys::bigint[], :gate_links::bigint[], :gate_bytes::bigint[]
    ) as gate (workspace, name, seen, changes, keys, links, bytes)
    where seen = 0
    order by workspace, name
    on conflict do nothing
    returning workspace, name
),
continued as (
    update store_namespaces
    set changes = gate.changes, keys = gate.keys, links = gate.links, bytes = gate.bytes, updated_at = :now
    from unnest(
        :gate_workspaces::uuid[], :gate_names::text[], :gate_seen::bigint[], :gate_changes::bigint[],
        :gate_keys::bigint[], :gate_links::bigint[], :gate_bytes::bigint[]
    ) as gate (workspace, name, seen, changes, keys, links, bytes)
    where gate.seen > 0
        and store_namespaces.workspace = gate.workspace
        and store_namespaces.name = gate.name
        and store_namespaces.changes = gate.seen
        and (select count(*) from created) >= 0
    returning store_namespaces.workspace, store_namespaces.name
),
opened as materialized (
    select workspace, name from created
    union all
    select workspace, name from continued
),
put as (
    insert into records (
        workspace, namespace, key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id,
        step, codec, value
    )
    select
        workspace, namespace, key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id,
        step, codec, value
    from unnest(
        :put_workspaces::uuid[], :put_namespaces::text[], :put_keys::text[], :put_ids::uuid[], :put_revisions::bigint[],
        :put_changes::bigint[], :put_bytes::bigint[], :put_value_types::text[], :put_expires_at::bigint[],
        :put_created_at::bigint[], :put_updated_at::bigint[], :put_runs::uuid[], :put_steps::text[],
        :put_codecs::smallint[], :put_values::bytea[]
    ) as new (
        workspace, namespace, key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id,
        step, codec, value
    )
    where ((workspace, namespace) in (select workspace, name from opened)) is true
    on conflict (workspace, namespace, key) do update
    set id = excluded.id,
        revision = excluded.revision,
        change = excluded.change,
        bytes = excluded.bytes,
        value_type = excluded.value_type,
        expires_at = excluded.expires_at,
        created_at = excluded.created_at,
        updated_at = excluded.updated_at,
        run_id = excluded.run_id,
        step = excluded.step,
        codec = excluded.codec,
        value = excluded.value
),
changed as (
    insert into store_changes (
        workspace, namespace, change, at, expires_at, action, subject, actor, run_id, step, op_key, digest, revision,
        value_type, value_expires_at, output, codec, value
    )
    select
        workspace, namespace, change, at, :kept_until, action, subject, actor, run_id, step, op_key, digest, revision,
        value_type, value_expires_at, output, codec, value
    from unnest(
        :change_workspaces::uuid[], :change_namespaces::text[], :change_numbers::bigint[], :change_at::bigint[],
        :change_actions::text[], :change_subjects::text[], :change_actors::text[], :change_runs::uuid[],
        :change_steps::text[], :change_op_keys::text[], :change_digests::bytea[], :change_revisions::bigint[],
        :change_value_types::text[], :change_value_expires_at::bigint[], :change_outputs::bytea[],
        :change_codecs::smallint[], :change_values::bytea[]
    ) as new (
        workspace, namespace, change, at, action, subject, actor, run_id, step, op_key, digest, revision, value_type,
        value_expires_at, output, codec, value
    )
    where ((workspace, namespace) in (select workspace, name from opened)) is true
)
select
    (select array_agg(workspace order by workspace, name) from opened),
    (select array_agg(name order by workspace, name) from opened)
