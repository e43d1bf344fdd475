-- The records of a namespace after a key, from a prefix on, by key; with their values if :values.
-- Served by the primary key of records (workspace, namespace, key).
select
    key, id, revision, change, bytes, value_type, expires_at, created_at, updated_at, run_id, step, codec,
    case when :values then value end
from records
where workspace = :workspace
    and namespace = :namespace
    and key > :after
    and key >= :prefix
order by key
