-- Records with their values, whether they have expired or not, each with its place in the arrays.
-- Served by the primary key of records (workspace, namespace, key), one probe per element.
select
    found.key, found.id, found.revision, found.change, found.bytes, found.value_type, found.expires_at, found.created_at,
    found.updated_at, found.run_id, found.step, found.codec, found.value, wanted.place
from unnest(:workspaces::uuid[], :namespaces::text[], :keys::text[])
    with ordinality as wanted (workspace, namespace, key, place)
cross join lateral (
    select key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec, value
    from records
    where records.workspace = wanted.workspace
        and records.namespace = wanted.namespace
        and records.key = wanted.key
    limit 1
) as found
