-- At most :limit records of a namespace after a key, from a prefix on, by key; with their values if :values, up to
-- about :bytes bytes. The last column is the number of records without the limit of bytes.
-- Served by the primary key of records (workspace, namespace, key). Values beyond the limit of bytes are not read.
select
    key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec,
    case when :values then value end, rows
from (
    select *, sum(bytes) over (order by key) as total, count(*) over () as rows
    from (
        select *
        from records
        where workspace = :workspace
            and namespace = :namespace
            and key > :after
            and key >= :prefix
        order by key
        limit :limit
    ) as following
) as counted
where total - bytes < :bytes
order by key
