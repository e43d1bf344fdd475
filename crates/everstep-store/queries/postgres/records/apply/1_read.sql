-- What a batch of ops without links touches, in one snapshot: the numbers of namespaces, the ops whose keys are known,
-- and records, each with its place in the arrays. The value of a record is read only up to a size.
-- A part is one row of arrays, all in the same, unspecified order.
-- All parts see one snapshot: otherwise an op that another node applies between two reads could be unknown and its
-- record be there, and the op would fail by its own effect.
-- Served by the primary keys of store_namespaces and records and by store_changes_by_op, one probe per element.
with
namespace as materialized (
    select
        array_agg(wanted.place) as places, array_agg(found.changes) as changes, array_agg(found.keys) as keys,
        array_agg(found.links) as links, array_agg(found.bytes) as bytes
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
    select
        array_agg(wanted.place) as places, array_agg(found.digest) as digests, array_agg(found.output) as outputs
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
        array_agg(wanted.place) as places, array_agg(found.id) as ids, array_agg(found.revision) as revisions,
        array_agg(found.change) as changes, array_agg(found.bytes) as bytes, array_agg(found.value_type) as value_types,
        array_agg(found.expires_at) as expires_at, array_agg(found.created_at) as created_at,
        array_agg(found.codec) as codecs,
        array_agg(case when found.bytes <= wanted.value_bytes then found.value end) as contents
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
    (select places from namespace),
    (select changes from namespace),
    (select keys from namespace),
    (select links from namespace),
    (select bytes from namespace),
    (select places from op),
    (select digests from op),
    (select outputs from op),
    (select places from record),
    (select ids from record),
    (select revisions from record),
    (select changes from record),
    (select bytes from record),
    (select value_types from record),
    (select expires_at from record),
    (select created_at from record),
    (select codecs from record),
    (select contents from record)
