-- The parts of 2_write.sql that delete records, and that write and delete links. They are added before its final select
-- only if a batch does that. A link is deleted before another one with its sides and relation is written.
-- Served by the primary keys of records (workspace, namespace, key) and links (id, workspace).
deleted as (
    delete from records
    using unnest(:deleted_workspaces::uuid[], :deleted_namespaces::text[], :deleted_keys::text[])
        as gone (workspace, namespace, key)
    where records.workspace = gone.workspace
        and records.namespace = gone.namespace
        and records.key = gone.key
        and ((gone.workspace, gone.namespace) in (select workspace, name from opened)) is true
),
unlinked as (
    delete from links
    using unnest(:unlinked_workspaces::uuid[], :unlinked_namespaces::text[], :unlinked_ids::uuid[])
        as gone (workspace, namespace, id)
    where links.id = gone.id
        and links.workspace is not distinct from gone.workspace
        and ((gone.workspace, gone.namespace) in (select workspace, name from opened)) is true
    returning links.id
),
linked as (
    insert into links (
        workspace, id, namespace, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at,
        run_id, step, attributes
    )
    select
        workspace, id, namespace, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at,
        run_id, step, attributes
    from unnest(
        :link_workspaces::uuid[], :link_ids::uuid[], :link_namespaces::text[], :link_left_types::text[],
        :link_left_ids::text[], :link_right_types::text[], :link_right_ids::text[], :link_relations::text[],
        :link_changes::bigint[], :link_created_at::bigint[], :link_updated_at::bigint[], :link_runs::uuid[],
        :link_steps::text[], :link_attributes::bytea[]
    ) as new (
        workspace, id, namespace, left_type, left_id, right_type, right_id, relation, change, created_at, updated_at,
        run_id, step, attributes
    )
    where ((workspace, namespace) in (select workspace, name from opened)) is true
        and (select count(*) from unlinked) >= 0
    on conflict (id, workspace) do update
    set change = excluded.change,
        updated_at = excluded.updated_at,
        run_id = excluded.run_id,
        step = excluded.step,
        attributes = excluded.attributes
)
