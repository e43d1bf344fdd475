-- What a batch of ops touches, in one snapshot: the parts of 1_read.sql, and links. A link is read without its
-- attributes: by its sides and relation if it is written, and if it is deleted, by one side, both sides or its id, up
-- to a limit. A link has its place in one of five lists of arrays.
-- Served by the primary keys of store_namespaces, records and links, by store_changes_by_op, links_have_one_edge and
-- links_reversed, one probe per element. The order of links, and `is not distinct from`, which no index serves, leave the
-- planner one index to choose, also while statistics are missing.
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
),
edge as materialized (
    select wanted.place, found.*
    from unnest(
        :edge_workspaces::uuid[], :edge_namespaces::text[], :edge_left_types::text[], :edge_left_ids::text[],
        :edge_right_types::text[], :edge_right_ids::text[], :edge_relations::text[]
    ) with ordinality as wanted (workspace, namespace, left_type, left_id, right_type, right_id, relation, place)
    cross join lateral (
        select id, left_type, left_id, right_type, right_id, relation, created_at, length(attributes)::bigint as bytes
        from links
        where links.workspace = wanted.workspace
            and links.namespace = wanted.namespace
            and links.left_type = wanted.left_type
            and links.left_id = wanted.left_id
            and links.right_type = wanted.right_type
            and links.right_id = wanted.right_id
            and links.relation = wanted.relation
        limit 1
    ) as found
),
linked_from as materialized (
    select wanted.place, found.*
    from unnest(
        :from_workspaces::uuid[], :from_namespaces::text[], :from_types::text[], :from_ids::text[],
        :from_relations::text[]
    ) with ordinality as wanted (workspace, namespace, left_type, left_id, relation, place)
    cross join lateral (
        select id, left_type, left_id, right_type, right_id, relation, created_at, length(attributes)::bigint as bytes
        from links
        where links.workspace = wanted.workspace
            and links.namespace = wanted.namespace
            and links.left_type = wanted.left_type
            and links.left_id = wanted.left_id
            and (wanted.relation is null or links.relation = wanted.relation)
        order by links.right_type, links.right_id, links.relation
        limit :limit
    ) as found
),
linked_to as materialized (
    select wanted.place, found.*
    from unnest(
        :to_workspaces::uuid[], :to_namespaces::text[], :to_types::text[], :to_ids::text[],
        :to_relations::text[]
    ) with ordinality as wanted (workspace, namespace, right_type, right_id, relation, place)
    cross join lateral (
        select id, left_type, left_id, right_type, right_id, relation, created_at, length(attributes)::bigint as bytes
        from links
        where links.workspace = wanted.workspace
            and links.namespace = wanted.namespace
            and links.right_type = wanted.right_type
            and links.right_id = wanted.right_id
            and (wanted.relation is null or links.relation = wanted.relation)
        order by links.relation, links.left_type, links.left_id
        limit :limit
    ) as found
),
linked_between as materialized (
    select wanted.place, found.*
    from unnest(
        :between_workspaces::uuid[], :between_namespaces::text[], :between_left_types::text[],
        :between_left_ids::text[], :between_right_types::text[], :between_right_ids::text[],
        :between_relations::text[]
    ) with ordinality as wanted (workspace, namespace, left_type, left_id, right_type, right_id, relation, place)
    cross join lateral (
        select id, left_type, left_id, right_type, right_id, relation, created_at, length(attributes)::bigint as bytes
        from links
        where links.workspace = wanted.workspace
            and links.namespace = wanted.namespace
            and links.left_type = wanted.left_type
            and links.left_id = wanted.left_id
            and links.right_type = wanted.right_type
            and links.right_id = wanted.right_id
            and (wanted.relation is null or links.relation = wanted.relation)
        order by links.relation
        limit :limit
    ) as found
),
link_by_id as materialized (
    select wanted.place, found.*
    from unnest(
        :id_workspaces::uuid[], :id_namespaces::text[], :ids::uuid[]
    ) with ordinality as wanted (workspace, namespace, id, place)
    cross join lateral (
        select id, left_type, left_id, right_type, right_id, relation, created_at, length(attributes)::bigint as bytes
        from links
        where links.id = wanted.id
            and links.workspace is not distinct from wanted.workspace
            and links.namespace is not distinct from wanted.namespace
        limit 1
    ) as found
),
link as materialized (
    select 1 as list, * from edge
    union all
    select 2, * from linked_from
    union all
    select 3, * from linked_to
    union all
    select 4, * from linked_between
    union all
    select 5, * from link_by_id
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
    (select contents from record),
    (select array_agg(list order by list, place, id) from link),
    (select array_agg(place order by list, place, id) from link),
    (select array_agg(id order by list, place, id) from link),
    (select array_agg(left_type order by list, place, id) from link),
    (select array_agg(left_id order by list, place, id) from link),
    (select array_agg(right_type order by list, place, id) from link),
    (select array_agg(right_id order by list, place, id) from link),
    (select array_agg(relation order by list, place, id) from link),
    (select array_agg(created_at order by list, place, id) from link),
    (select array_agg(bytes order by list, place, id) from link)
