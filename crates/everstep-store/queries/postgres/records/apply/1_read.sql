-- What a batch of ops without links touches, in one snapshot: the numbers of namespaces, the ops whose keys are known,
-- and records, each with its place in the arrays. The value of a record is read only up to a size.
-- All parts see one snapshot: otherwise an op that another node applies between two reads could be unknown and its
-- record be there, and the op would fail by its own effect.
-- Served by the primary keys of store_namespaces and records and by store_changes_by_op, one probe per element.
with
namespace as materialized (
    select wanted.place, found.changes, found.keys, found.links, found.bytes
    from unnest(:workspaces::uuid[], :namespaces::text[]) with ordinality as wanted (workspace, name, place)
    cross join lateral (
        select changes, keys, links, bytes
        from store_namespaces
        where store_namespaces.workspace = wanted.workspace
            and store_namespaces.name = wanted.name
        limit 1
    ) as found
),
op as materialized (
    select wanted.place, found.digest, found.output
    from unnest(:op_workspaces::uuid[], :op_keys::text[]) with ordinality as wanted (workspace, op_key, place)
    cross join lateral (
        select digest, output
        from store_changes
        where store_changes.workspace = wanted.workspace
            and store_changes.op_key = wanted.op_key
        limit 1
    ) as found
),
record as materialized (
    select
        wanted.place, found.id, found.revision, found.change, found.bytes, found.value_type, found.expires_at,
        found.created_at, found.codec, case when found.bytes <= wanted.value_bytes then found.value end as value
    from unnest(
        :record_workspaces::uuid[], :record_namespaces::text[], :record_keys::text[], :record_value_bytes::bigint[]
    ) with ordinality as wanted (workspace, namespace, key, value_bytes, place)
    cross join lateral (
        select id, revision, change, bytes, value_type, expires_at, created_at, codec, value
        from records
        where records.workspace = wanted.workspace
            and records.namespace = wanted.namespace
            and records.key = wanted.key
        limit 1
    ) as found
)
select
    (select array_agg(place order by place) from namespace),
    (select array_agg(changes order by place) from namespace),
    (select array_agg(keys order by place) from namespace),
    (select array_agg(links order by place) from namespace),
    (select array_agg(bytes order by place) from namespace),
    (select array_agg(place order by place) from op),
    (select array_agg(digest order by place) from op),
    (select array_agg(output order by place) from op),
    (select array_agg(place order by place) from record),
    (select array_agg(id order by place) from record),
    (select array_agg(revision order by place) from record),
    (select array_agg(change order by place) from record),
    (select array_agg(bytes order by place) from record),
    (select array_agg(value_type order by place) from record),
    (select array_agg(expires_at order by place) from record),
    (select array_agg(created_at order by place) from record),
    (select array_agg(codec order by place) from record),
    (select array_agg(value order by place) from record)
