-- Writes a record as it is after the batch.
-- Served by the primary key of records (workspace, namespace, key).
insert into records (
    workspace, namespace, key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step,
    codec, value
)
values (
    :workspace, :namespace, :key, :id, :revision, :change, :bytes, :value_type, :expires_at, :created_at, :updated_at,
    :run, :step, :codec, :value
)
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
